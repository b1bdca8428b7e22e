import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.errors.InvalidTimestampException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;

/** What is produced is what is consumed. */
final class ProduceChecks {
    private static final long THEN = 1_600_000_000_000L; // an explicit timestamp, in 2020
    private static final int LIMIT = 1_048_588; // message.max.bytes, and max.message.bytes

    static void list(Map<String, ClientChecks.Check> checks) {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            for (String acks : List.of("0", "1", "all")) {
                checks.put("produce " + codec + " acks=" + acks,
                    broker -> produces(broker, codec, acks));
            }
            checks.put("sizes " + codec, broker -> sizes(broker, codec));
        }
        checks.put("a record at the limit, and one byte more", ProduceChecks::limit);
        checks.put("the limit of a topic", ProduceChecks::limitOfTopic);
        checks.put("a compressed record is measured as sent", ProduceChecks::compressedLimit);
        checks.put("idempotent with five requests in flight", ProduceChecks::idempotent);
        checks.put("the time of the broker", ProduceChecks::appendTime);
        checks.put("a time in the future", ProduceChecks::future);
        checks.put("a compacted topic wants keys", ProduceChecks::compacted);
        checks.put("a topic that comes by being written to", ProduceChecks::autoCreate);
    }

    /** Every shape of key, value and headers, each with a time of its own. */
    private static List<ProducerRecord<byte[], byte[]>> shapes(String topic) {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        byte[][] texts = {null, {}, bytes("x"), bytes("a longer text, but not a long one")};
        for (byte[] key : texts) {
            for (byte[] value : texts) {
                for (int headers = 0; headers < 3; headers++) {
                    records.add(new ProducerRecord<>(topic, 0, THEN + 1000L * records.size(), key,
                        value, headers(headers)));
                }
            }
        }
        return records;
    }

    private static List<Header> headers(int count) {
        List<Header> all = List.of(
            new RecordHeader("name", bytes("value")), new RecordHeader("null", (byte[]) null));
        return all.subList(0, count);
    }

    private static void produces(ClientChecks.Broker broker, String codec, String acks)
            throws Exception {
        String topic = "java-" + codec + "-" + acks;
        broker.create(topic);
        List<ProducerRecord<byte[], byte[]>> sent = shapes(topic);
        List<RecordMetadata> told = send(broker, sent, "compression.type", codec, "acks", acks,
            "enable.idempotence", acks.equals("all"), "linger.ms", 5);
        for (int i = 0; i < told.size(); i++) {
            ClientChecks.equal("told offset", acks.equals("0") ? -1L : i, told.get(i).offset());
        }
        compare(sent, broker.records(topic, 0, sent.size()));
    }

    private static List<RecordMetadata> send(ClientChecks.Broker broker,
            List<ProducerRecord<byte[], byte[]>> records, Object... settings) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        List<RecordMetadata> told = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = broker.producer(settings)) {
            records.forEach(each -> sent.add(producer.send(each)));
            producer.flush();
            for (Future<RecordMetadata> each : sent) {
                told.add(each.get());
            }
        }
        return told;
    }

    private static void compare(List<ProducerRecord<byte[], byte[]>> sent,
            List<ConsumerRecord<byte[], byte[]>> got) {
        for (int i = 0; i < sent.size(); i++) {
            ProducerRecord<byte[], byte[]> wanted = sent.get(i);
            ConsumerRecord<byte[], byte[]> record = got.get(i);
            String which = "record " + i + ", ";
            ClientChecks.equal(which + "offset", (long) i, record.offset());
            ClientChecks.equal(which + "key", wanted.key(), record.key());
            ClientChecks.equal(which + "value", wanted.value(), record.value());
            ClientChecks.equal(which + "headers", wanted.headers(), record.headers());
            ClientChecks.equal(which + "time", wanted.timestamp(), record.timestamp());
            ClientChecks.equal(which + "kind", TimestampType.CREATE_TIME, record.timestampType());
            ClientChecks.equal(which + "epoch", 0, record.leaderEpoch().orElse(-1));
        }
    }

    /** Around every length at which a count grows by a byte, in a batch of its own each. */
    private static void sizes(ClientChecks.Broker broker, String codec) throws Exception {
        String topic = "java-sizes-" + codec;
        broker.create(topic);
        List<ProducerRecord<byte[], byte[]>> sent = new ArrayList<>();
        for (int size : List.of(1, 2, 63, 64, 127, 128, 8191, 8192, 16_383, 65_536, 1_000_000)) {
            sent.add(new ProducerRecord<>(topic, 0, THEN, bytes("k"), noise(size)));
        }
        send(broker, sent, "compression.type", codec, "batch.size", 1);
        compare(sent, broker.records(topic, 0, sent.size()));
    }

    /** The largest value whose batch has this size when nothing compresses it. */
    private static int largestValue(int size) {
        int value = size;
        while (DefaultRecordBatch.sizeInBytes(List.of(new SimpleRecord(new byte[value]))) > size) {
            value--;
        }
        return value;
    }

    private static void limit(ClientChecks.Broker broker) throws Exception {
        String topic = "java-limit";
        broker.create(topic);
        int largest = largestValue(LIMIT);
        ClientChecks.equal("largest value", LIMIT - 72, largest);
        List<ProducerRecord<byte[], byte[]>> sent =
            List.of(new ProducerRecord<>(topic, 0, THEN, null, noise(largest)));
        for (String acks : List.of("1", "all")) {
            send(broker, sent, "acks", acks, "max.request.size", 2 * LIMIT);
            var over = List.of(
                new ProducerRecord<byte[], byte[]>(topic, 0, THEN, null, noise(largest + 1)));
            ClientChecks.raises(RecordTooLargeException.class,
                () -> send(broker, over, "acks", acks, "max.request.size", 2 * LIMIT));
        }
        compare(sent, broker.records(topic, 0, 2).subList(0, 1));
    }

    private static void limitOfTopic(ClientChecks.Broker broker) throws Exception {
        broker.create("java-small", 1, Map.of("max.message.bytes", "1000"));
        int largest = largestValue(1000);
        var fits = List.of(new ProducerRecord<byte[], byte[]>(
            "java-small", 0, THEN, null, noise(largest)));
        send(broker, fits);
        var over = List.of(new ProducerRecord<byte[], byte[]>(
            "java-small", 0, THEN, null, noise(largest + 1)));
        ClientChecks.raises(RecordTooLargeException.class, () -> send(broker, over));
        compare(fits, broker.records("java-small", 0, 1));
    }

    private static void compressedLimit(ClientChecks.Broker broker) throws Exception {
        broker.create("java-squeezed");
        var sent = List.of(new ProducerRecord<byte[], byte[]>(
            "java-squeezed", 0, THEN, null, new byte[8 * LIMIT]));
        send(broker, sent, "compression.type", "zstd", "max.request.size", 16 * LIMIT);
        compare(sent, broker.records("java-squeezed", 0, 1));
    }

    private static void idempotent(ClientChecks.Broker broker) throws Exception {
        broker.create("java-idempotent");
        List<ProducerRecord<byte[], byte[]>> sent = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            sent.add(new ProducerRecord<>("java-idempotent", 0, THEN + i, null, bytes("v" + i)));
        }
        List<RecordMetadata> told = send(broker, sent, "enable.idempotence", true, "batch.size",
            200, "linger.ms", 0, "max.in.flight.requests.per.connection", 5);
        for (int i = 0; i < told.size(); i++) {
            ClientChecks.equal("told offset", (long) i, told.get(i).offset());
        }
        compare(sent, broker.records("java-idempotent", 0, sent.size()));
    }

    private static void appendTime(ClientChecks.Broker broker) throws Exception {
        broker.create("java-append", 1, Map.of("message.timestamp.type", "LogAppendTime"));
        long before = System.currentTimeMillis();
        RecordMetadata told = send(broker, List.of(new ProducerRecord<byte[], byte[]>(
            "java-append", 0, THEN, null, bytes("v")))).get(0);
        long after = System.currentTimeMillis();
        ClientChecks.holds("time of the broker, " + told.timestamp(),
            before <= told.timestamp() && told.timestamp() <= after);
        ConsumerRecord<byte[], byte[]> record = broker.records("java-append", 0, 1).get(0);
        ClientChecks.equal("kind", TimestampType.LOG_APPEND_TIME, record.timestampType());
        ClientChecks.equal("time", told.timestamp(), record.timestamp());
    }

    private static void future(ClientChecks.Broker broker) throws Exception {
        broker.create("java-future");
        var sent = List.of(new ProducerRecord<byte[], byte[]>("java-future", 0,
            System.currentTimeMillis() + 7_200_000, null, bytes("v")));
        ClientChecks.raises(InvalidTimestampException.class, () -> send(broker, sent));
    }

    private static void compacted(ClientChecks.Broker broker) throws Exception {
        broker.create("java-compacted", 1, Map.of("cleanup.policy", "compact"));
        for (String codec : List.of("none", "lz4")) {
            var without = List.of(new ProducerRecord<byte[], byte[]>(
                "java-compacted", 0, THEN, null, bytes("v")));
            ClientChecks.raises(InvalidRecordException.class,
                () -> send(broker, without, "compression.type", codec));
        }
        var with = List.of(new ProducerRecord<byte[], byte[]>(
            "java-compacted", 0, THEN, bytes("k"), (byte[]) null));
        send(broker, with, "compression.type", "lz4");
        compare(with, broker.records("java-compacted", 0, 1));
    }

    private static void autoCreate(ClientChecks.Broker broker) throws Exception {
        var sent = List.of(new ProducerRecord<byte[], byte[]>(
            "java-comes", 0, THEN, null, bytes("v")));
        send(broker, sent);
        compare(sent, broker.records("java-comes", 0, 1));
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Bytes that no codec makes smaller, the same each time. */
    private static byte[] noise(int size) {
        byte[] result = new byte[size];
        new java.util.Random(size).nextBytes(result);
        return result;
    }

    private ProduceChecks() {
    }
}
