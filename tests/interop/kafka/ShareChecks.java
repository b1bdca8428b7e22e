import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.admin.ShareMemberDescription;
import org.apache.kafka.clients.admin.SharePartitionOffsetInfo;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Share groups: Java's share consumer, and what an administrator sees and does. */
final class ShareChecks {
    private static final Duration SHORT = Duration.ofMillis(200);

    static void list(Map<String, ClientChecks.Check> checks) {
        checks.put("share implicit", ShareChecks::implicit);
        checks.put("share explicit", ShareChecks::explicit);
        checks.put("share release and reject", ShareChecks::releasesAndRejects);
        checks.put("share delivery limit", ShareChecks::givesUp);
        checks.put("share lock runs out", ShareChecks::locks);
        checks.put("share renew", ShareChecks::renews);
        checks.put("share among members", ShareChecks::amongMembers);
        checks.put("share read committed", ShareChecks::readsCommitted);
        checks.put("share begins at the end", ShareChecks::beginsAtTheEnd);
        checks.put("share administration", ShareChecks::administers);
    }

    private static KafkaShareConsumer<byte[], byte[]> member(ClientChecks.Broker broker, String group,
            Object... settings) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", broker.address,
            "group.id", group, "key.deserializer", ByteArrayDeserializer.class,
            "value.deserializer", ByteArrayDeserializer.class));
        for (int i = 0; i < settings.length; i += 2) {
            all.put((String) settings[i], settings[i + 1]);
        }
        return new KafkaShareConsumer<>(all);
    }

    private static void set(ClientChecks.Broker broker, String group, Map<String, String> configs)
            throws Exception {
        List<AlterConfigOp> changes = configs.entrySet().stream()
            .map(each -> new AlterConfigOp(new ConfigEntry(each.getKey(), each.getValue()),
                AlterConfigOp.OpType.SET))
            .collect(Collectors.toList());
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        broker.admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
    }

    /** A topic of its own with the numbers up to `count`, and a group that reads it from the start. */
    private static String prepare(ClientChecks.Broker broker, String topic, int partitions, int count,
            String... configs) throws Exception {
        broker.create(topic, partitions, Map.of());
        fill(broker, topic, 0, count);
        Map<String, String> all = new LinkedHashMap<>(Map.of("share.auto.offset.reset", "earliest"));
        for (int i = 0; i < configs.length; i += 2) {
            all.put(configs[i], configs[i + 1]);
        }
        set(broker, topic, all);
        return topic;
    }

    private static void fill(ClientChecks.Broker broker, String topic, int from, int to) {
        try (KafkaProducer<byte[], byte[]> producer = broker.producer()) {
            for (int i = from; i < to; i++) {
                producer.send(new ProducerRecord<>(topic, bytes(i)));
            }
        }
    }

    private static byte[] bytes(int number) {
        return Integer.toString(number).getBytes(StandardCharsets.UTF_8);
    }

    private static int number(ConsumerRecord<byte[], byte[]> record) {
        return Integer.parseInt(new String(record.value(), StandardCharsets.UTF_8));
    }

    private static Set<Integer> upTo(int count) {
        return IntStream.range(0, count).boxed().collect(Collectors.toCollection(TreeSet::new));
    }

    private static void until(String what, BooleanSupplier isSo) {
        long end = System.currentTimeMillis() + ClientChecks.DEADLINE_MS;
        while (!isSo.getAsBoolean()) {
            ClientChecks.holds(what, System.currentTimeMillis() < end);
        }
    }

    private static List<ConsumerRecord<byte[], byte[]>> some(KafkaShareConsumer<byte[], byte[]> member) {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        until("records", () -> {
            member.poll(SHORT).forEach(found::add);
            return !found.isEmpty();
        });
        return found;
    }

    private static void commit(KafkaShareConsumer<byte[], byte[]> member) {
        Map<TopicIdPartition, Optional<KafkaException>> told = member.commitSync();
        told.forEach((place, error) -> ClientChecks.equal("commit of " + place, Optional.empty(), error));
    }

    private static void implicit(ClientChecks.Broker broker) throws Exception {
        String topic = prepare(broker, "share-implicit", 3, 300);
        Map<Integer, Integer> seen = new TreeMap<>();
        for (int turn = 0; turn < 2; turn++) {
            try (KafkaShareConsumer<byte[], byte[]> member = member(broker, topic)) {
                member.subscribe(List.of(topic));
                until("all records", () -> {
                    member.poll(SHORT).forEach(each -> seen.merge(number(each), 1, Integer::sum));
                    return seen.size() == 300;
                });
                commit(member);
            }
        }
        ClientChecks.equal("once each", Set.of(1), new HashSet<>(seen.values()));
    }

    private static void explicit(ClientChecks.Broker broker) throws Exception {
        String topic = prepare(broker, "share-explicit", 1, 10);
        try (KafkaShareConsumer<byte[], byte[]> member = member(broker, topic,
                "share.acknowledgement.mode", "explicit")) {
            member.subscribe(List.of(topic));
            List<ConsumerRecord<byte[], byte[]>> got = some(member);
            ClientChecks.equal("count", 10, got.size());
            ClientChecks.equal("delivery", Optional.of((short) 1), got.get(0).deliveryCount());
            ClientChecks.raises(IllegalStateException.class, () -> member.poll(SHORT));
            got.forEach(each -> member.acknowledge(each, AcknowledgeType.ACCEPT));
            commit(member);
            fill(broker, topic, 10, 11);
            ClientChecks.equal("the next", 10, number(some(member).get(0)));
        }
    }

    private static void releasesAndRejects(ClientChecks.Broker broker) throws Exception {
        String topic = prepare(broker, "share-release", 1, 6);
        Map<Integer, Short> again = new TreeMap<>();
        try (KafkaShareConsumer<byte[], byte[]> member = member(broker, topic,
                "share.acknowledgement.mode", "explicit")) {
            member.subscribe(List.of(topic));
            for (ConsumerRecord<byte[], byte[]> each : some(member)) {
                member.acknowledge(each, AcknowledgeType.values()[number(each) % 3 == 0
                    ? AcknowledgeType.RELEASE.ordinal() : number(each) % 3 == 1
                    ? AcknowledgeType.REJECT.ordinal() : AcknowledgeType.ACCEPT.ordinal()]);
            }
            commit(member);
            until("the released ones", () -> {
                member.poll(SHORT).forEach(each -> {
                    again.put(number(each), each.deliveryCount().orElseThrow());
                    member.acknowledge(each, AcknowledgeType.ACCEPT);
                });
                commit(member);
                return again.size() == 2;
            });
        }
        ClientChecks.equal("again", Map.of(0, (short) 2, 3, (short) 2), again);
    }

    private static void givesUp(ClientChecks.Broker broker) throws Exception {
        String topic = prepare(broker, "share-limit", 1, 1, "share.delivery.count.limit", "3");
        List<Short> counts = new ArrayList<>();
        try (KafkaShareConsumer<byte[], byte[]> member = member(broker, topic,
                "share.acknowledgement.mode", "explicit")) {
            member.subscribe(List.of(topic));
            until("the last delivery", () -> {
                member.poll(SHORT).forEach(each -> {
                    counts.add(each.deliveryCount().orElseThrow());
                    member.acknowledge(each, AcknowledgeType.RELEASE);
                });
                commit(member);
                return counts.size() == 3;
            });
            fill(broker, topic, 1, 2);
            ClientChecks.equal("passed over", 1, number(some(member).get(0)));
        }
        ClientChecks.equal("counts", List.of((short) 1, (short) 2, (short) 3), counts);
    }

    private static void locks(ClientChecks.Broker broker) throws Exception {
        String topic = prepare(broker, "share-lock", 1, 5, "share.record.lock.duration.ms", "1500");
        try (KafkaShareConsumer<byte[], byte[]> idle = member(broker, topic,
                "share.acknowledgement.mode", "explicit");
                KafkaShareConsumer<byte[], byte[]> other = member(broker, topic)) {
            idle.subscribe(List.of(topic));
            ClientChecks.equal("first", 5, some(idle).size());
            ClientChecks.equal("lock", Optional.of(1500), idle.acquisitionLockTimeoutMs());
            other.subscribe(List.of(topic));
            List<ConsumerRecord<byte[], byte[]>> got = some(other);
            ClientChecks.equal("second", Optional.of((short) 2), got.get(0).deliveryCount());
        }
    }

    private static void renews(ClientChecks.Broker broker) throws Exception {
        String topic = prepare(broker, "share-renew", 1, 1, "share.record.lock.duration.ms", "2000");
        try (KafkaShareConsumer<byte[], byte[]> slow = member(broker, topic,
                "share.acknowledgement.mode", "explicit");
                KafkaShareConsumer<byte[], byte[]> other = member(broker, topic)) {
            slow.subscribe(List.of(topic));
            ConsumerRecord<byte[], byte[]> record = some(slow).get(0);
            other.subscribe(List.of(topic));
            long end = System.currentTimeMillis() + 5000;
            while (System.currentTimeMillis() < end) {
                slow.acknowledge(record, AcknowledgeType.RENEW);
                commit(slow);
                slow.poll(SHORT);
                ClientChecks.equal("nobody else's", 0, other.poll(SHORT).count());
            }
            slow.acknowledge(record, AcknowledgeType.ACCEPT);
            commit(slow);
        }
    }

    private static void amongMembers(ClientChecks.Broker broker) throws Exception {
        String topic = prepare(broker, "share-members", 1, 0);
        List<KafkaShareConsumer<byte[], byte[]>> members = new ArrayList<>();
        Map<Integer, Integer> seen = new TreeMap<>();
        Set<Integer> readers = new TreeSet<>();
        try {
            for (int i = 0; i < 3; i++) {
                members.add(member(broker, topic, "max.poll.records", 10,
                    "share.acquire.mode", "record_limit"));
                members.get(i).subscribe(List.of(topic));
                members.get(i).poll(SHORT);
            }
            fill(broker, topic, 0, 600);
            until("all records", () -> {
                for (int i = 0; i < 3; i++) {
                    int reader = i;
                    members.get(i).poll(SHORT).forEach(each -> {
                        readers.add(reader);
                        seen.merge(number(each), 1, Integer::sum);
                    });
                }
                return seen.keySet().equals(upTo(600));
            });
        } finally {
            members.forEach(KafkaShareConsumer::close);
        }
        ClientChecks.equal("once each", Set.of(1), new HashSet<>(seen.values()));
        ClientChecks.equal("readers of one partition", upTo(3), readers);
    }

    private static void readsCommitted(ClientChecks.Broker broker) throws Exception {
        String topic = prepare(broker, "share-committed", 1, 0, "share.isolation.level", "read_committed");
        try (KafkaProducer<byte[], byte[]> producer = broker.producer("transactional.id", topic)) {
            producer.initTransactions();
            for (int i = 0; i < 4; i++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, bytes(i)));
                producer.flush();
                if (i % 2 == 0) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
        List<Integer> got = new ArrayList<>();
        try (KafkaShareConsumer<byte[], byte[]> member = member(broker, topic)) {
            member.subscribe(List.of(topic));
            until("committed ones", () -> {
                member.poll(SHORT).forEach(each -> got.add(number(each)));
                return got.size() >= 2;
            });
            member.poll(SHORT).forEach(each -> got.add(number(each)));
        }
        ClientChecks.equal("records", List.of(0, 2), got);
    }

    private static void beginsAtTheEnd(ClientChecks.Broker broker) throws Exception {
        String topic = prepare(broker, "share-latest", 1, 5, "share.auto.offset.reset", "latest");
        try (KafkaShareConsumer<byte[], byte[]> member = member(broker, topic)) {
            member.subscribe(List.of(topic));
            until("its begin", () -> {
                ClientChecks.equal("old ones", 0, member.poll(SHORT).count());
                return begin(broker, topic, topic).isPresent();
            });
            fill(broker, topic, 5, 6);
            ClientChecks.equal("the first", 5, number(some(member).get(0)));
        }
    }

    private static Optional<Long> begin(ClientChecks.Broker broker, String group, String topic) {
        try {
            return Optional.ofNullable(offsets(broker, group).get(new TopicPartition(topic, 0)))
                .map(SharePartitionOffsetInfo::startOffset);
        } catch (Exception failed) {
            throw new AssertionError(failed);
        }
    }

    private static Map<TopicPartition, SharePartitionOffsetInfo> offsets(ClientChecks.Broker broker,
            String group) throws Exception {
        return broker.admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec()))
            .partitionsToOffsetInfo(group).get();
    }

    private static void administers(ClientChecks.Broker broker) throws Exception {
        String topic = prepare(broker, "share-admin", 1, 10);
        TopicPartition place = new TopicPartition(topic, 0);
        try (KafkaShareConsumer<byte[], byte[]> member = member(broker, topic, "client.id", "worker")) {
            member.subscribe(List.of(topic));
            some(member);
            commit(member);
            ShareGroupDescription told = broker.admin.describeShareGroups(List.of(topic))
                .describedGroups().get(topic).get();
            ClientChecks.equal("state", GroupState.STABLE, told.groupState());
            ShareMemberDescription one = told.members().iterator().next();
            ClientChecks.equal("client", "worker", one.clientId());
            ClientChecks.equal("reads", Set.of(place), one.assignment().topicPartitions());
            ClientChecks.raises(GroupNotEmptyException.class,
                () -> broker.admin.alterShareGroupOffsets(topic, Map.of(place, 3L)).all().get());
        }
        ClientChecks.equal("start", 10L, offsets(broker, topic).get(place).startOffset());
        ClientChecks.equal("lag", Optional.of(0L), offsets(broker, topic).get(place).lag());
        broker.admin.alterShareGroupOffsets(topic, Map.of(place, 8L)).all().get();
        ClientChecks.equal("left", Optional.of(2L), offsets(broker, topic).get(place).lag());
        try (KafkaShareConsumer<byte[], byte[]> member = member(broker, topic)) {
            member.subscribe(List.of(topic));
            ClientChecks.equal("from there", 8, number(some(member).get(0)));
        }
        broker.admin.deleteShareGroupOffsets(topic, Set.of(topic)).all().get();
        ClientChecks.equal("deleted", Map.of(), offsets(broker, topic));
        broker.admin.deleteShareGroups(List.of(topic)).all().get();
        Set<String> left = broker.admin.listGroups().all().get().stream()
            .map(each -> each.groupId()).collect(Collectors.toSet());
        ClientChecks.holds("gone", !left.contains(topic));
    }
}
