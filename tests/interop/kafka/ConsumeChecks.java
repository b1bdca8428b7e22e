import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.NoOffsetForPartitionException;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Consumers that are told what to read: none of them is in a group. */
final class ConsumeChecks {
    private static final int COUNT = 60;
    private static final long THEN = 1_600_000_000_000L;
    private static final Duration SHORT = Duration.ofMillis(100);

    static void list(Map<String, ClientChecks.Check> checks) {
        checks.put("from any offset", ConsumeChecks::anyOffset);
        checks.put("beginning and end", ConsumeChecks::beginningAndEnd);
        checks.put("by timestamp", ConsumeChecks::byTimestamp);
        checks.put("paused and resumed", ConsumeChecks::paused);
        checks.put("a record arrives while the poll waits", ConsumeChecks::longPoll);
        checks.put("a fetch waits for enough bytes", ConsumeChecks::minBytes);
        checks.put("small fetches come forward", ConsumeChecks::smallFetches);
        checks.put("where nothing is said the policy decides", ConsumeChecks::resets);
        checks.put("an offset out of range", ConsumeChecks::outOfRange);
        checks.put("many partitions in one session", ConsumeChecks::manyPartitions);
        checks.put("partitions come and go in a session", ConsumeChecks::changingSession);
        checks.put("only committed records, with none open", ConsumeChecks::readCommitted);
        checks.put("topics and partitions are listed", ConsumeChecks::listed);
        checks.put("a topic that is made again", ConsumeChecks::madeAgain);
        checks.put("partitions that come later", ConsumeChecks::grown);
        checks.put("much is read while it is written", ConsumeChecks::stream);
    }

    /** `COUNT` records, value i at offset i and 10 i ms after THEN, in batches of about ten. */
    private static TopicPartition filled(ClientChecks.Broker broker, String topic)
            throws Exception {
        broker.create(topic);
        try (KafkaProducer<byte[], byte[]> producer =
                broker.producer("compression.type", "lz4", "linger.ms", 1000)) {
            for (int i = 0; i < COUNT; i++) {
                producer.send(record(topic, 0, i));
                if (i % 10 == 9) {
                    producer.flush();
                }
            }
        }
        return new TopicPartition(topic, 0);
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, int partition, int i) {
        return new ProducerRecord<>(
            topic, partition, THEN + 10L * i, null, ProduceChecks.bytes("v" + i));
    }

    private static KafkaConsumer<byte[], byte[]> at(ClientChecks.Broker broker,
            List<TopicPartition> where, Object... settings) {
        KafkaConsumer<byte[], byte[]> consumer = broker.consumer(settings);
        consumer.assign(where);
        return consumer;
    }

    private static void are(List<ConsumerRecord<byte[], byte[]>> records, int first) {
        for (int i = 0; i < records.size(); i++) {
            ClientChecks.equal("offset", (long) first + i, records.get(i).offset());
            ClientChecks.equal(
                "value", ProduceChecks.bytes("v" + (first + i)), records.get(i).value());
        }
    }

    private static void anyOffset(ClientChecks.Broker broker) throws Exception {
        TopicPartition where = filled(broker, "java-any");
        try (var consumer = at(broker, List.of(where))) {
            for (int offset = 0; offset < COUNT; offset++) {
                consumer.seek(where, offset);
                are(ClientChecks.take(consumer, COUNT - offset), offset);
                ClientChecks.equal("position", (long) COUNT, consumer.position(where));
            }
        }
    }

    private static void beginningAndEnd(ClientChecks.Broker broker) throws Exception {
        TopicPartition where = filled(broker, "java-ends");
        try (var consumer = at(broker, List.of(where))) {
            ClientChecks.equal("first", Map.of(where, 0L),
                consumer.beginningOffsets(List.of(where)));
            ClientChecks.equal("end", Map.of(where, (long) COUNT),
                consumer.endOffsets(List.of(where)));
            broker.admin.deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(25))).all().get();
            ClientChecks.equal("first after a deletion", Map.of(where, 25L),
                consumer.beginningOffsets(List.of(where)));
            consumer.seekToBeginning(List.of(where));
            are(ClientChecks.take(consumer, COUNT - 25), 25);
            consumer.seekToEnd(List.of(where));
            ClientChecks.equal("position at the end", (long) COUNT, consumer.position(where));
            ClientChecks.equal("records", 0, consumer.poll(SHORT).count());
            ClientChecks.equal("lag", 0L, consumer.currentLag(where).orElse(-1));
        }
    }

    private static void byTimestamp(ClientChecks.Broker broker) throws Exception {
        TopicPartition where = filled(broker, "java-times");
        try (var consumer = at(broker, List.of(where))) {
            for (int i = 0; i < COUNT; i++) {
                for (int earlier : List.of(0, 9)) {
                    OffsetAndTimestamp found = consumer.offsetsForTimes(
                        Map.of(where, THEN + 10L * i - earlier)).get(where);
                    ClientChecks.equal("found",
                        new OffsetAndTimestamp(i, THEN + 10L * i, Optional.of(0)), found);
                }
            }
            Map<TopicPartition, OffsetAndTimestamp> nothing = new HashMap<>();
            nothing.put(where, null);
            ClientChecks.equal("after the last", nothing,
                consumer.offsetsForTimes(Map.of(where, THEN + 10L * COUNT)));
            consumer.seek(where, consumer.offsetsForTimes(
                Map.of(where, THEN + 333)).get(where).offset());
            are(ClientChecks.take(consumer, COUNT - 34), 34);
        }
    }

    private static void paused(ClientChecks.Broker broker) throws Exception {
        TopicPartition flows = filled(broker, "java-flows");
        TopicPartition waits = filled(broker, "java-waits");
        try (var consumer = at(broker, List.of(flows, waits))) {
            consumer.seekToBeginning(List.of(flows, waits));
            consumer.pause(List.of(waits));
            for (ConsumerRecord<byte[], byte[]> each : ClientChecks.take(consumer, COUNT)) {
                ClientChecks.equal("topic", flows.topic(), each.topic());
            }
            ClientChecks.equal("while paused", 0, consumer.poll(SHORT).count());
            ClientChecks.equal("position", 0L, consumer.position(waits));
            consumer.resume(List.of(waits));
            are(ClientChecks.take(consumer, COUNT), 0);
            consumer.pause(List.of(flows));
            consumer.resume(List.of(flows));
            ClientChecks.equal("paused", Set.of(), consumer.paused());
        }
    }

    /** The fetch may wait five seconds; the record has to come long before. */
    private static void longPoll(ClientChecks.Broker broker) throws Exception {
        TopicPartition where = filled(broker, "java-long-poll");
        for (String acks : List.of("1", "all")) {
            try (var producer = broker.producer("acks", acks);
                    var consumer = at(broker, List.of(where), "fetch.max.wait.ms", 5000)) {
                producer.partitionsFor(where.topic());
                consumer.seekToEnd(List.of(where));
                long end = consumer.position(where);
                ClientChecks.equal("before", 0, consumer.poll(SHORT).count());
                CompletableFuture<Long> sent = CompletableFuture.supplyAsync(() -> {
                    producer.send(record(where.topic(), 0, (int) end));
                    return System.nanoTime();
                }, CompletableFuture.delayedExecutor(200, TimeUnit.MILLISECONDS));
                ConsumerRecords<byte[], byte[]> found = consumer.poll(Duration.ofSeconds(4));
                long waited = (System.nanoTime() - sent.get()) / 1_000_000;
                ClientChecks.equal("records", 1, found.count());
                are(found.records(where), (int) end);
                ClientChecks.holds("came after " + waited + " ms", waited < 1500);
                consumer.close(CloseOptions.timeout(Duration.ZERO)); // behind it a fetch waits
            }
        }
    }

    private static void minBytes(ClientChecks.Broker broker) throws Exception {
        TopicPartition where = filled(broker, "java-min-bytes");
        try (var consumer = at(broker, List.of(where), "fetch.max.wait.ms", 600,
                "fetch.min.bytes", 1_000_000)) {
            consumer.seek(where, COUNT - 1);
            long begin = System.nanoTime();
            are(ClientChecks.take(consumer, 1), COUNT - 1);
            long waited = (System.nanoTime() - begin) / 1_000_000;
            ClientChecks.holds("waited " + waited + " ms", waited >= 550 && waited < 5000);
        }
    }

    /** A batch that is larger than what was asked for is given nevertheless. */
    private static void smallFetches(ClientChecks.Broker broker) throws Exception {
        TopicPartition where = filled(broker, "java-small-fetches");
        for (String limit : List.of("fetch.max.bytes", "max.partition.fetch.bytes")) {
            try (var consumer = at(broker, List.of(where), limit, 1, "max.poll.records", 7)) {
                consumer.seekToBeginning(List.of(where));
                List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
                long end = System.currentTimeMillis() + ClientChecks.DEADLINE_MS;
                while (found.size() < COUNT && System.currentTimeMillis() < end) {
                    ConsumerRecords<byte[], byte[]> some = consumer.poll(SHORT);
                    ClientChecks.holds("at most seven at once", some.count() <= 7);
                    some.forEach(found::add);
                }
                ClientChecks.equal("records", COUNT, found.size());
                are(found, 0);
            }
        }
    }

    private static void resets(ClientChecks.Broker broker) throws Exception {
        TopicPartition where = filled(broker, "java-resets");
        try (var consumer = at(broker, List.of(where), "auto.offset.reset", "earliest")) {
            are(ClientChecks.take(consumer, COUNT), 0);
        }
        try (var consumer = at(broker, List.of(where), "auto.offset.reset", "latest")) {
            ClientChecks.equal("position", (long) COUNT, consumer.position(where));
        }
        try (var consumer = at(broker, List.of(where), "auto.offset.reset", "none")) {
            ClientChecks.raises(NoOffsetForPartitionException.class, () -> consumer.poll(SHORT));
        }
        Duration age = Duration.between(Instant.ofEpochMilli(THEN), Instant.now()).plusHours(1);
        try (var consumer = at(
                broker, List.of(where), "auto.offset.reset", "by_duration:" + age)) {
            ClientChecks.equal("position", 0L, consumer.position(where));
        }
    }

    private static void outOfRange(ClientChecks.Broker broker) throws Exception {
        TopicPartition where = filled(broker, "java-out-of-range");
        broker.admin.deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(20))).all().get();
        try (var consumer = at(broker, List.of(where), "auto.offset.reset", "none")) {
            for (long offset : List.of(0L, 19L, COUNT + 1L)) {
                consumer.seek(where, offset);
                OffsetOutOfRangeException raised = ClientChecks.raises(
                    OffsetOutOfRangeException.class, () -> consumer.poll(Duration.ofSeconds(5)));
                ClientChecks.equal("at", Map.of(where, offset), raised.offsetOutOfRangePartitions());
            }
            consumer.seek(where, 20);
            are(ClientChecks.take(consumer, COUNT - 20), 20);
        }
        try (var consumer = at(broker, List.of(where), "auto.offset.reset", "earliest")) {
            consumer.seek(where, 3);
            are(ClientChecks.take(consumer, COUNT - 20), 20);
        }
    }

    private static void manyPartitions(ClientChecks.Broker broker) throws Exception {
        int partitions = 100;
        broker.create("java-many", partitions, Map.of());
        List<TopicPartition> all = new ArrayList<>();
        Set<String> sent = new HashSet<>();
        Set<String> got = new HashSet<>();
        for (int i = 0; i < partitions; i++) {
            all.add(new TopicPartition("java-many", i));
        }
        try (var consumer = at(broker, all); var producer = broker.producer()) {
            consumer.seekToBeginning(all);
            for (int round = 0; round < 3; round++) {
                for (int i = round; i < partitions; i += 7) {
                    producer.send(record("java-many", i, round));
                    sent.add(i + " v" + round);
                }
                producer.flush();
                for (var each : ClientChecks.take(consumer, (partitions - round + 6) / 7)) {
                    got.add(each.partition() + " " + new String(each.value()));
                }
            }
        }
        ClientChecks.equal("records", sent, got);
    }

    private static void changingSession(ClientChecks.Broker broker) throws Exception {
        TopicPartition one = filled(broker, "java-session-1");
        TopicPartition two = filled(broker, "java-session-2");
        try (var consumer = at(broker, List.of(one))) {
            consumer.seek(one, 50);
            are(ClientChecks.take(consumer, COUNT - 50), 50);
            consumer.assign(List.of(one, two));
            consumer.seek(two, 40);
            are(ClientChecks.take(consumer, COUNT - 40), 40);
            consumer.assign(List.of(two));
            consumer.seek(two, 30);
            are(ClientChecks.take(consumer, COUNT - 30), 30);
            consumer.assign(List.of(one));
            consumer.seek(one, 20);
            are(ClientChecks.take(consumer, COUNT - 20), 20);
        }
    }

    private static void readCommitted(ClientChecks.Broker broker) throws Exception {
        TopicPartition where = filled(broker, "java-committed");
        try (var consumer = at(broker, List.of(where), "isolation.level", "read_committed")) {
            ClientChecks.equal("end", Map.of(where, (long) COUNT),
                consumer.endOffsets(List.of(where)));
            consumer.seekToBeginning(List.of(where));
            are(ClientChecks.take(consumer, COUNT), 0);
        }
    }

    private static void listed(ClientChecks.Broker broker) throws Exception {
        broker.create("java-listed", 3, Map.of());
        try (var consumer = broker.consumer()) {
            ClientChecks.equal("partitions", 3, consumer.partitionsFor("java-listed").size());
            consumer.partitionsFor("java-listed").forEach(each -> {
                ClientChecks.equal("leader", 1, each.leader().id());
                ClientChecks.equal("replicas in sync", 1, each.inSyncReplicas().length);
            });
            ClientChecks.equal("topics", 3, consumer.listTopics().get("java-listed").size());
        }
    }

    /** One producer and one consumer live through it: both have to learn the new topic's id. */
    private static void madeAgain(ClientChecks.Broker broker) throws Exception {
        TopicPartition where = new TopicPartition("java-again", 0);
        try (var producer = broker.producer("linger.ms", 0);
                var consumer = at(broker, List.of(where), "auto.offset.reset", "earliest")) {
            for (int life = 0; life < 3; life++) {
                broker.create(where.topic());
                int count = 10 - 3 * life; // fewer each time: the old position is out of range
                for (int i = 0; i < count; i++) {
                    ClientChecks.equal("offset", (long) i,
                        producer.send(record(where.topic(), 0, i)).get().offset());
                }
                are(ClientChecks.take(consumer, count), 0);
                broker.admin.deleteTopics(List.of(where.topic())).all().get();
            }
        }
    }

    private static void grown(ClientChecks.Broker broker) throws Exception {
        broker.create("java-grown", 1, Map.of());
        try (var producer = broker.producer("metadata.max.age.ms", 100);
                var consumer = broker.consumer("metadata.max.age.ms", 100)) {
            ClientChecks.equal("before", 1, consumer.partitionsFor("java-grown").size());
            broker.admin.createPartitions(
                Map.of("java-grown", NewPartitions.increaseTo(3))).all().get();
            producer.send(record("java-grown", 2, 0)).get();
            consumer.assign(List.of(new TopicPartition("java-grown", 2)));
            consumer.seekToBeginning(consumer.assignment());
            are(ClientChecks.take(consumer, 1), 0);
            ClientChecks.equal("after", 3, consumer.partitionsFor("java-grown").size());
        }
    }

    /** Forty megabytes over eight partitions, by producers of three codecs at once. */
    private static void stream(ClientChecks.Broker broker) throws Exception {
        int partitions = 8;
        int each = 13_000; // by each producer
        broker.create("java-stream", partitions, Map.of());
        List<String> codecs = List.of("none", "lz4", "zstd");
        List<CompletableFuture<Void>> senders = new ArrayList<>();
        for (String codec : codecs) {
            senders.add(CompletableFuture.runAsync(() -> write(broker, codec, partitions, each)));
        }
        List<TopicPartition> all = new ArrayList<>();
        for (int i = 0; i < partitions; i++) {
            all.add(new TopicPartition("java-stream", i));
        }
        Map<String, Integer> next = new HashMap<>();
        try (var consumer = at(broker, all)) {
            consumer.seekToBeginning(all);
            for (var record : ClientChecks.take(consumer, codecs.size() * each)) {
                String source = new String(record.key()) + " to " + record.partition();
                int wanted = next.merge(source, partitions, Integer::sum) - partitions;
                int number = ByteBuffer.wrap(record.value()).getInt();
                ClientChecks.equal(source, wanted + record.partition(), number);
            }
        }
        for (CompletableFuture<Void> sender : senders) {
            sender.get();
        }
    }

    /** Record i goes to partition i modulo their number, so each partition knows what is next. */
    private static void write(
            ClientChecks.Broker broker, String codec, int partitions, int count) {
        byte[] key = ProduceChecks.bytes(codec);
        try (var producer = broker.producer("compression.type", codec, "linger.ms", 5)) {
            for (int i = 0; i < count; i++) {
                byte[] value = ByteBuffer.allocate(1000).putInt(i).array();
                producer.send(new ProducerRecord<>("java-stream", i % partitions, key, value));
            }
        }
    }

    private ConsumeChecks() {
    }
}
