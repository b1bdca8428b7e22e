import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidRegularExpression;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.UnreleasedInstanceIdException;
import org.apache.kafka.common.errors.UnsupportedAssignorException;

/** Groups of the newer protocol, group.protocol=consumer, in which the broker assigns. */
final class GroupChecks {
    private static final int PARTITIONS = 6;
    private static final Duration SHORT = Duration.ofMillis(50);

    static void list(Map<String, ClientChecks.Check> checks) {
        checks.put("members share and take over", GroupChecks::share);
        checks.put("the range assignor", GroupChecks::range);
        checks.put("a subscription by pattern", GroupChecks::pattern);
        checks.put("a static member comes back", GroupChecks::comesBack);
        checks.put("what a group is refused", GroupChecks::refused);
        checks.put("from one protocol to the other", GroupChecks::migrates);
        checks.put("a group is upgraded, eager", GroupChecks::upgradesEager);
        checks.put("a group is upgraded, cooperative", GroupChecks::upgradesCooperative);
        checks.put("a group has partitions that come later", GroupChecks::grows);
    }

    private static KafkaConsumer<byte[], byte[]> member(ClientChecks.Broker broker, String group,
            Object... settings) {
        List<Object> all = new ArrayList<>(List.of("group.id", group, "group.protocol", "consumer",
            "auto.offset.reset", "earliest", "enable.auto.commit", false));
        all.addAll(List.of(settings));
        return broker.consumer(all.toArray());
    }

    private static void fill(ClientChecks.Broker broker, String topic, int from, int to) {
        try (KafkaProducer<byte[], byte[]> producer = broker.producer()) {
            for (int i = from; i < to; i++) {
                byte[] value = Integer.toString(i).getBytes(StandardCharsets.UTF_8);
                producer.send(new ProducerRecord<>(topic, i % PARTITIONS, null, value));
            }
        }
    }

    interface Condition {
        boolean holds();
    }

    /** Polls every member in turn; what they read goes into the set, and is committed. */
    private static void until(String what, Set<Integer> read, Condition condition,
            List<KafkaConsumer<byte[], byte[]>> members) {
        long end = System.currentTimeMillis() + ClientChecks.DEADLINE_MS;
        while (!condition.holds()) {
            ClientChecks.holds("in time: " + what, System.currentTimeMillis() < end);
            for (KafkaConsumer<byte[], byte[]> member : members) {
                for (ConsumerRecord<byte[], byte[]> each : member.poll(SHORT)) {
                    read.add(Integer.valueOf(new String(each.value(), StandardCharsets.UTF_8)));
                }
                try {
                    member.commitSync();
                } catch (RebalanceInProgressException again) {
                    // one that cooperates reads on while it joins again, and commits after that
                    continue;
                }
            }
        }
    }

    private static boolean isShared(List<KafkaConsumer<byte[], byte[]>> members) {
        Set<TopicPartition> all = new HashSet<>();
        int count = 0;
        for (KafkaConsumer<byte[], byte[]> member : members) {
            all.addAll(member.assignment());
            count += member.assignment().size();
            if (member.assignment().size() != PARTITIONS / members.size()) {
                return false;
            }
        }
        return all.size() == PARTITIONS && count == PARTITIONS;
    }

    private static void share(ClientChecks.Broker broker) throws Exception {
        broker.create("shared", PARTITIONS, Map.of());
        fill(broker, "shared", 0, 60);
        Set<Integer> read = new HashSet<>();
        try (KafkaConsumer<byte[], byte[]> one = member(broker, "shared")) {
            one.subscribe(List.of("shared"));
            try (KafkaConsumer<byte[], byte[]> two = member(broker, "shared")) {
                two.subscribe(List.of("shared"));
                List<KafkaConsumer<byte[], byte[]>> both = List.of(one, two);
                until("shared and read", read, () -> read.size() == 60 && isShared(both), both);
                describes(broker, "shared", 2, "uniform");
            }
            List<KafkaConsumer<byte[], byte[]>> left = List.of(one);
            fill(broker, "shared", 60, 90);
            until("taken over", read, () -> read.size() == 90 && isShared(left), left);
        }
        Map<TopicPartition, OffsetAndMetadata> committed = broker.admin
            .listConsumerGroupOffsets("shared").partitionsToOffsetAndMetadata().get();
        ClientChecks.equal("partitions with offsets", PARTITIONS, committed.size());
        committed.values().forEach(each -> ClientChecks.equal("offset", 15L, each.offset()));
        ClientChecks.equal("state", GroupState.EMPTY, described(broker, "shared").groupState());
        broker.admin.deleteConsumerGroups(List.of("shared")).all().get();
    }

    private static ConsumerGroupDescription described(ClientChecks.Broker broker, String group)
            throws Exception {
        return broker.admin.describeConsumerGroups(List.of(group)).describedGroups().get(group)
            .get();
    }

    private static void describes(ClientChecks.Broker broker, String group, int members,
            String assignor) throws Exception {
        ConsumerGroupDescription found = described(broker, group);
        ClientChecks.equal("type", GroupType.CONSUMER, found.type());
        ClientChecks.equal("state", GroupState.STABLE, found.groupState());
        ClientChecks.equal("assignor", assignor, found.partitionAssignor());
        ClientChecks.equal("members", members, found.members().size());
        for (MemberDescription each : found.members()) {
            ClientChecks.equal("upgraded", Optional.of(true), each.upgraded());
            ClientChecks.equal("its target", each.assignment(), each.targetAssignment().get());
            ClientChecks.equal("its share", PARTITIONS / members,
                each.assignment().topicPartitions().size());
        }
    }

    private static void range(ClientChecks.Broker broker) throws Exception {
        broker.create("ranged", PARTITIONS, Map.of());
        Set<Integer> read = new HashSet<>();
        try (KafkaConsumer<byte[], byte[]> one =
                    member(broker, "ranged", "group.remote.assignor", "range");
                KafkaConsumer<byte[], byte[]> two =
                    member(broker, "ranged", "group.remote.assignor", "range")) {
            List<KafkaConsumer<byte[], byte[]>> both = List.of(one, two);
            both.forEach(each -> each.subscribe(List.of("ranged")));
            until("shared", read, () -> isShared(both), both);
            describes(broker, "ranged", 2, "range");
            int sum = one.assignment().stream().mapToInt(TopicPartition::partition).sum();
            ClientChecks.holds("side by side", sum == 0 + 1 + 2 || sum == 3 + 4 + 5);
        }
    }

    private static void pattern(ClientChecks.Broker broker) throws Exception {
        broker.create("match-1", PARTITIONS, Map.of());
        broker.create("no-match-1", PARTITIONS, Map.of());
        Set<Integer> read = new HashSet<>();
        try (KafkaConsumer<byte[], byte[]> one = member(broker, "matching")) {
            one.subscribe(new SubscriptionPattern("match-.*"));
            List<KafkaConsumer<byte[], byte[]>> alone = List.of(one);
            until("matched", read, () -> isShared(alone), alone);
            broker.create("match-2", 1, Map.of());
            until("the new one too", read, () -> one.assignment().size() == PARTITIONS + 1, alone);
            ClientChecks.holds("by name",
                one.assignment().contains(new TopicPartition("match-2", 0)));
        }
    }

    private static void comesBack(ClientChecks.Broker broker) throws Exception {
        broker.create("static", PARTITIONS, Map.of());
        Set<Integer> read = new HashSet<>();
        List<Collection<TopicPartition>> revoked = new ArrayList<>();
        ConsumerRebalanceListener listener = new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                revoked.add(partitions);
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}
        };
        try (KafkaConsumer<byte[], byte[]> one =
                member(broker, "static", "group.instance.id", "one")) {
            one.subscribe(List.of("static"), listener);
            Set<TopicPartition> had;
            try (KafkaConsumer<byte[], byte[]> two =
                    member(broker, "static", "group.instance.id", "two")) {
                two.subscribe(List.of("static"));
                List<KafkaConsumer<byte[], byte[]>> both = List.of(one, two);
                until("shared", read, () -> isShared(both), both);
                had = two.assignment();
            }
            revoked.clear();
            try (KafkaConsumer<byte[], byte[]> again =
                    member(broker, "static", "group.instance.id", "two")) {
                again.subscribe(List.of("static"));
                until("it is back", read, () -> isShared(List.of(one, again)),
                    List.of(one, again));
                ClientChecks.equal("what it had", had, again.assignment());
                ClientChecks.equal("nobody else noticed", List.of(), revoked);
                try (KafkaConsumer<byte[], byte[]> other =
                        member(broker, "static", "group.instance.id", "two")) {
                    other.subscribe(List.of("static"));
                    ClientChecks.raises(UnreleasedInstanceIdException.class, () -> poll(other));
                }
            }
        }
    }

    /** Until something is raised. */
    private static void poll(KafkaConsumer<byte[], byte[]> member) {
        long end = System.currentTimeMillis() + ClientChecks.DEADLINE_MS;
        while (System.currentTimeMillis() < end) {
            member.poll(SHORT);
        }
    }

    private static void refused(ClientChecks.Broker broker) throws Exception {
        broker.create("refused", PARTITIONS, Map.of());
        try (KafkaConsumer<byte[], byte[]> one =
                member(broker, "refused", "group.remote.assignor", "best")) {
            one.subscribe(List.of("refused"));
            ClientChecks.raises(UnsupportedAssignorException.class, () -> poll(one));
        }
        try (KafkaConsumer<byte[], byte[]> one = member(broker, "refused")) {
            one.subscribe(new SubscriptionPattern("("));
            ClientChecks.raises(InvalidRegularExpression.class, () -> poll(one));
        }
    }

    private static void migrates(ClientChecks.Broker broker) throws Exception {
        broker.create("migrated", PARTITIONS, Map.of());
        fill(broker, "migrated", 0, 60);
        Set<Integer> read = new HashSet<>();
        reads(broker, read, "classic", 60);
        fill(broker, "migrated", 60, 90);
        read.clear();
        reads(broker, read, "consumer", 30);
        fill(broker, "migrated", 90, 120);
        read.clear();
        reads(broker, read, "classic", 30);
    }

    /** A member of one protocol reads on where the last one was. */
    private static void reads(ClientChecks.Broker broker, Set<Integer> read, String protocol,
            int count) {
        try (KafkaConsumer<byte[], byte[]> one =
                member(broker, "migrated", "group.protocol", protocol)) {
            one.subscribe(List.of("migrated"));
            until("read by " + protocol, read, () -> read.size() == count, List.of(one));
        }
    }

    /** Three members are replaced one by one, and none stands still. */
    private static void upgrades(ClientChecks.Broker broker, String topic, String... settings)
            throws Exception {
        broker.create(topic, PARTITIONS, Map.of());
        List<KafkaConsumer<byte[], byte[]>> members = new ArrayList<>();
        Set<Integer> read = new HashSet<>();
        try {
            for (int i = 0; i < 3; i++) {
                members.add(classic(broker, topic, settings));
            }
            for (int i = 0; i < 4; i++) {
                until("shared " + i, read, () -> isShared(members), members);
                int count = 60 * (i + 1);
                fill(broker, topic, count - 60, count);
                until("read " + i, read, () -> read.size() == count, members);
                if (i < 3) {
                    members.remove(0).close();
                    KafkaConsumer<byte[], byte[]> next = member(broker, topic);
                    next.subscribe(List.of(topic));
                    members.add(next);
                }
            }
            describes(broker, topic, 3, "uniform");
        } finally {
            members.forEach(KafkaConsumer::close);
        }
    }

    private static KafkaConsumer<byte[], byte[]> classic(ClientChecks.Broker broker, String topic,
            String... settings) {
        List<Object> all = new ArrayList<>(
            List.of("group.protocol", "classic", "heartbeat.interval.ms", 300));
        all.addAll(List.of(settings));
        KafkaConsumer<byte[], byte[]> made = member(broker, topic, all.toArray());
        made.subscribe(List.of(topic));
        return made;
    }

    private static void upgradesEager(ClientChecks.Broker broker) throws Exception {
        upgrades(broker, "upgraded-eager", "partition.assignment.strategy",
            RangeAssignor.class.getName());
    }

    private static void upgradesCooperative(ClientChecks.Broker broker) throws Exception {
        upgrades(broker, "upgraded-cooperative", "partition.assignment.strategy",
            CooperativeStickyAssignor.class.getName());
    }

    private static void grows(ClientChecks.Broker broker) throws Exception {
        broker.create("grown-group", PARTITIONS - 1, Map.of());
        Set<Integer> read = new HashSet<>();
        try (KafkaConsumer<byte[], byte[]> one = member(broker, "grown-group")) {
            one.subscribe(List.of("grown-group"));
            List<KafkaConsumer<byte[], byte[]>> alone = List.of(one);
            until("all", read, () -> one.assignment().size() == PARTITIONS - 1, alone);
            broker.admin.createPartitions(Map.of("grown-group",
                NewPartitions.increaseTo(PARTITIONS))).all().get();
            until("one more", read, () -> isShared(alone), alone);
        }
    }
}
