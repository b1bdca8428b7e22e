import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Apache Kafka's Java client against a broker whose address is the one argument. Each check says on a
 * line of standard output `ok NAME`, or `failed NAME` and, in the lines that follow, why.
 */
public final class ClientChecks {
    /** What a check does; anything that it throws is why it failed. */
    interface Check {
        void run(Broker broker) throws Exception;
    }

    static final long DEADLINE_MS = 20_000;

    public static void main(String[] arguments) {
        Map<String, Check> checks = new LinkedHashMap<>();
        ProduceChecks.list(checks);
        ConsumeChecks.list(checks);
        GroupChecks.list(checks);
        ShareChecks.list(checks);
        TransactionChecks.list(checks);
        AdminChecks.list(checks);
        try (Broker broker = new Broker(arguments[0])) {
            checks.forEach((name, check) -> System.out.println(run(name, check, broker)));
        }
    }

    private static String run(String name, Check check, Broker broker) {
        try {
            check.run(broker);
            return "ok " + name;
        } catch (Throwable raised) {
            StringWriter why = new StringWriter();
            raised.printStackTrace(new PrintWriter(why));
            return "failed " + name + "\n" + why.toString().indent(4).stripTrailing();
        }
    }

    static void equal(String what, Object wanted, Object got) {
        if (!Objects.deepEquals(wanted, got)) {
            throw new AssertionError(what + ": wanted " + wanted + ", got " + got);
        }
    }

    static void holds(String what, boolean isSo) {
        equal(what, true, isSo);
    }

    /** The exception of this class that the call ends with, or that its future does. */
    static <T extends Throwable> T raises(Class<T> wanted, Call call) {
        Throwable raised = null;
        try {
            call.run();
        } catch (ExecutionException failed) {
            raised = failed.getCause();
        } catch (Exception failed) {
            raised = failed;
        }
        if (!wanted.isInstance(raised)) {
            throw new AssertionError("wanted " + wanted.getSimpleName() + ", got " + raised, raised);
        }
        return wanted.cast(raised);
    }

    interface Call {
        void run() throws Exception;
    }

    /** One broker and what most checks need of it. */
    static final class Broker implements AutoCloseable {
        final String address;
        final Admin admin;

        Broker(String address) {
            this.address = address;
            this.admin = Admin.create(Map.of("bootstrap.servers", address));
        }

        @Override
        public void close() {
            admin.close();
        }

        void create(String topic, int partitions, Map<String, String> configs) throws Exception {
            NewTopic wanted = new NewTopic(topic, partitions, (short) 1).configs(configs);
            admin.createTopics(List.of(wanted)).all().get();
        }

        void create(String topic) throws Exception {
            create(topic, 1, Map.of());
        }

        /** Settings are given as names and values in turn. */
        KafkaProducer<byte[], byte[]> producer(Object... settings) {
            return new KafkaProducer<>(
                named(settings), new ByteArraySerializer(), new ByteArraySerializer());
        }

        KafkaConsumer<byte[], byte[]> consumer(Object... settings) {
            return new KafkaConsumer<>(
                named(settings), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }

        private Map<String, Object> named(Object... settings) {
            Map<String, Object> result = new HashMap<>();
            result.put("bootstrap.servers", address);
            // what a consumer closes waits behind its last fetch
            result.put("fetch.max.wait.ms", 50);
            for (int i = 0; i < settings.length; i += 2) {
                result.put((String) settings[i], settings[i + 1]);
            }
            return result;
        }

        /** The records of a topic's partition from its beginning. */
        List<ConsumerRecord<byte[], byte[]>> records(String topic, int partition, int count) {
            TopicPartition where = new TopicPartition(topic, partition);
            try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
                consumer.assign(List.of(where));
                consumer.seekToBeginning(List.of(where));
                return take(consumer, count);
            }
        }
    }

    /** Polls until there are so many records; no more, no less. */
    static List<ConsumerRecord<byte[], byte[]>> take(
            KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        long end = System.currentTimeMillis() + DEADLINE_MS;
        while (found.size() < count && System.currentTimeMillis() < end) {
            consumer.poll(Duration.ofMillis(100)).forEach(found::add);
        }
        equal("records", count, found.size());
        return found;
    }

    private ClientChecks() {
    }
}
