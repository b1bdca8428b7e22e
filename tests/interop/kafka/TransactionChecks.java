import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;

/** Transactions by the protocol that the broker says it speaks: that of KIP-890. */
final class TransactionChecks {
    static void list(Map<String, ClientChecks.Check> checks) {
        checks.put("transactions commit and abort", TransactionChecks::commitsAndAborts);
        checks.put("offsets within a transaction", TransactionChecks::offsets);
        checks.put("a producer that was replaced", TransactionChecks::fenced);
        checks.put("a producer that is silent for too long", TransactionChecks::silent);
        checks.put("a transaction over many partitions", TransactionChecks::manyPartitions);
    }

    private static KafkaProducer<byte[], byte[]> begun(ClientChecks.Broker broker, String name,
            Object... settings) {
        Object[] all = new Object[settings.length + 2];
        all[0] = "transactional.id";
        all[1] = name;
        System.arraycopy(settings, 0, all, 2, settings.length);
        KafkaProducer<byte[], byte[]> producer = broker.producer(all);
        producer.initTransactions();
        return producer;
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, String topic, int partition,
            String text) {
        producer.send(new ProducerRecord<>(topic, partition, null, bytes(text)));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** What is committed, in order; not one record more comes. */
    private static List<String> committed(ClientChecks.Broker broker, String topic, int partition,
            int count) {
        TopicPartition where = new TopicPartition(topic, partition);
        try (KafkaConsumer<byte[], byte[]> consumer =
                broker.consumer("isolation.level", "read_committed")) {
            consumer.assign(List.of(where));
            consumer.seekToBeginning(List.of(where));
            List<String> found = new ArrayList<>();
            for (ConsumerRecord<byte[], byte[]> each : ClientChecks.take(consumer, count)) {
                found.add(new String(each.value(), StandardCharsets.UTF_8));
            }
            ClientChecks.holds("no more", consumer.poll(Duration.ofMillis(200)).isEmpty());
            return found;
        }
    }

    private static TransactionDescription described(ClientChecks.Broker broker, String name)
            throws Exception {
        return broker.admin.describeTransactions(List.of(name)).description(name).get();
    }

    private static void commitsAndAborts(ClientChecks.Broker broker) throws Exception {
        String topic = "java-transactions";
        broker.create(topic);
        List<String> wanted = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = begun(broker, topic)) {
            int epoch = described(broker, topic).producerEpoch();
            for (int i = 0; i < 10; i++) {
                producer.beginTransaction();
                for (int j = 0; j < 5; j++) {
                    send(producer, topic, 0, i + "." + j);
                }
                if (i % 3 == 1) {
                    producer.flush();
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                    for (int j = 0; j < 5; j++) {
                        wanted.add(i + "." + j);
                    }
                }
            }
            ClientChecks.equal("an epoch for each", epoch + 10,
                described(broker, topic).producerEpoch());
        }
        ClientChecks.equal("committed", wanted, committed(broker, topic, 0, wanted.size()));
    }

    private static void offsets(ClientChecks.Broker broker) throws Exception {
        String from = "java-consumed";
        String to = "java-produced";
        broker.create(from);
        broker.create(to);
        try (KafkaProducer<byte[], byte[]> producer = broker.producer()) {
            for (int i = 0; i < 20; i++) {
                send(producer, from, 0, "v" + i);
            }
        }
        TopicPartition where = new TopicPartition(from, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = broker.consumer("group.id", "java-eos",
                "isolation.level", "read_committed", "auto.offset.reset", "earliest",
                "enable.auto.commit", false, "max.poll.records", 5);
                KafkaProducer<byte[], byte[]> producer = begun(broker, "java-eos")) {
            consumer.subscribe(List.of(from));
            long done = 0;
            int turn = 0;
            long end = System.currentTimeMillis() + ClientChecks.DEADLINE_MS;
            while (done < 20 && System.currentTimeMillis() < end) {
                List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
                consumer.poll(Duration.ofMillis(100)).forEach(found::add);
                if (found.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                for (ConsumerRecord<byte[], byte[]> each : found) {
                    producer.send(new ProducerRecord<>(to, 0, null, each.value()));
                }
                long next = found.get(found.size() - 1).offset() + 1;
                producer.sendOffsetsToTransaction(
                    Map.of(where, new OffsetAndMetadata(next)), consumer.groupMetadata());
                if (turn++ % 2 == 0) {
                    producer.abortTransaction();
                    consumer.seek(where, done);
                } else {
                    producer.commitTransaction();
                    done = next;
                }
            }
            ClientChecks.equal("committed offset", 20L,
                consumer.committed(java.util.Set.of(where)).get(where).offset());
        }
        List<String> wanted = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            wanted.add("v" + i);
        }
        ClientChecks.equal("each once", wanted, committed(broker, to, 0, 20));
    }

    private static void fenced(ClientChecks.Broker broker) throws Exception {
        String topic = "java-fenced";
        broker.create(topic);
        try (KafkaProducer<byte[], byte[]> zombie = begun(broker, topic)) {
            zombie.beginTransaction();
            send(zombie, topic, 0, "lost");
            zombie.flush();
            try (KafkaProducer<byte[], byte[]> producer = begun(broker, topic)) {
                producer.beginTransaction();
                send(producer, topic, 0, "kept");
                producer.commitTransaction();
            }
            KafkaException raised = ClientChecks.raises(KafkaException.class, () -> {
                send(zombie, topic, 0, "late");
                zombie.commitTransaction();
            });
            Throwable why = raised.getCause() == null ? raised : raised.getCause();
            ClientChecks.holds("fenced: " + raised, why instanceof ProducerFencedException
                || why instanceof InvalidProducerEpochException);
        }
        ClientChecks.equal("committed", List.of("kept"), committed(broker, topic, 0, 1));
    }

    private static void silent(ClientChecks.Broker broker) throws Exception {
        String topic = "java-silent";
        broker.create(topic);
        try (KafkaProducer<byte[], byte[]> producer =
                begun(broker, topic, "transaction.timeout.ms", 500)) {
            producer.beginTransaction();
            send(producer, topic, 0, "lost");
            producer.flush();
            long end = System.currentTimeMillis() + ClientChecks.DEADLINE_MS;
            while (described(broker, topic).state() != TransactionState.COMPLETE_ABORT) {
                ClientChecks.holds("aborted in time", System.currentTimeMillis() < end);
                Thread.sleep(50);
            }
            ClientChecks.raises(KafkaException.class, producer::commitTransaction);
        }
        try (KafkaProducer<byte[], byte[]> producer = begun(broker, topic)) {
            producer.beginTransaction();
            send(producer, topic, 0, "kept");
            producer.commitTransaction();
        }
        ClientChecks.equal("committed", List.of("kept"), committed(broker, topic, 0, 1));
    }

    private static void manyPartitions(ClientChecks.Broker broker) throws Exception {
        String topic = "java-transaction-of-many";
        broker.create(topic, 30, Map.of());
        try (KafkaProducer<byte[], byte[]> producer = begun(broker, topic)) {
            producer.beginTransaction();
            for (int i = 0; i < 30; i++) {
                send(producer, topic, i, "v" + i);
            }
            producer.flush();
            ClientChecks.equal("partitions", 30,
                described(broker, topic).topicPartitions().size());
            producer.commitTransaction();
        }
        for (int i : new int[] {0, 13, 29}) {
            ClientChecks.equal("committed", List.of("v" + i), committed(broker, topic, i, 1));
        }
    }

    private TransactionChecks() {
    }
}
