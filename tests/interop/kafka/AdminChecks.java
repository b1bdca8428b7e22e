import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.FinalizedVersionRange;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicaAssignmentException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicIdException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** The Admin client: topics, configs, offsets, the cluster. */
final class AdminChecks {
    private static final long THEN = 1_600_000_000_000L;

    static void list(Map<String, ClientChecks.Check> checks) {
        checks.put("a topic is created, described and deleted", AdminChecks::topicLife);
        checks.put("what a new topic has is told", AdminChecks::createdConfigs);
        checks.put("topics that cannot be", AdminChecks::impossibleTopics);
        checks.put("validated, not created", AdminChecks::validateOnly);
        checks.put("topics by their ids", AdminChecks::byId);
        checks.put("partitions are added", AdminChecks::partitions);
        checks.put("configs of a topic change", AdminChecks::topicConfigs);
        checks.put("configs of the broker", AdminChecks::brokerConfigs);
        checks.put("bad configs change nothing", AdminChecks::badConfigs);
        checks.put("offsets of every kind", AdminChecks::offsets);
        checks.put("records are deleted", AdminChecks::deleteRecords);
        checks.put("log directories", AdminChecks::logDirs);
        checks.put("the cluster", AdminChecks::cluster);
        checks.put("elections and reassignments", AdminChecks::elections);
    }

    private static TopicDescription described(ClientChecks.Broker broker, String topic)
            throws Exception {
        return broker.admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
    }

    private static void topicLife(ClientChecks.Broker broker) throws Exception {
        broker.create("java-life", 3, Map.of());
        ClientChecks.holds("listed", broker.admin.listTopics().names().get().contains("java-life"));
        TopicDescription found = described(broker, "java-life");
        ClientChecks.equal("partitions", 3, found.partitions().size());
        ClientChecks.equal("internal", false, found.isInternal());
        for (int i = 0; i < 3; i++) {
            ClientChecks.equal("partition", i, found.partitions().get(i).partition());
            ClientChecks.equal("leader", 1, found.partitions().get(i).leader().id());
            ClientChecks.equal("replicas", List.of(1), ids(found.partitions().get(i).replicas()));
            ClientChecks.equal("in sync", List.of(1), ids(found.partitions().get(i).isr()));
        }
        broker.admin.deleteTopics(List.of("java-life")).all().get();
        ClientChecks.holds("gone", !broker.admin.listTopics().names().get().contains("java-life"));
        ClientChecks.raises(UnknownTopicOrPartitionException.class,
            () -> described(broker, "java-life"));
        ClientChecks.raises(UnknownTopicOrPartitionException.class,
            () -> broker.admin.deleteTopics(List.of("java-life")).all().get());
    }

    private static List<Integer> ids(Collection<Node> nodes) {
        return nodes.stream().map(Node::id).collect(Collectors.toList());
    }

    private static void createdConfigs(ClientChecks.Broker broker) throws Exception {
        NewTopic wanted = new NewTopic("java-told", Optional.empty(), Optional.empty())
            .configs(Map.of("retention.ms", "60000"));
        CreateTopicsResult told = broker.admin.createTopics(List.of(wanted));
        ClientChecks.equal("partitions", 1, told.numPartitions("java-told").get());
        ClientChecks.equal("replicas", 1, told.replicationFactor("java-told").get());
        ClientChecks.equal("id", described(broker, "java-told").topicId(),
            told.topicId("java-told").get());
        ConfigEntry entry = told.config("java-told").get().get("retention.ms");
        ClientChecks.equal("value", "60000", entry.value());
        ClientChecks.equal("source", ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, entry.source());
    }

    private static void impossibleTopics(ClientChecks.Broker broker) throws Exception {
        broker.create("java-there");
        broker.create("java.dot");
        short one = 1;
        refused(broker, TopicExistsException.class, new NewTopic("java-there", 1, one));
        refused(broker, InvalidTopicException.class, new NewTopic("java/none", 1, one));
        refused(broker, InvalidTopicException.class, new NewTopic("x".repeat(250), 1, one));
        refused(broker, InvalidTopicException.class, new NewTopic("java_dot", 1, one));
        refused(broker, InvalidPartitionsException.class, new NewTopic("java-none", 0, one));
        refused(broker, InvalidReplicationFactorException.class,
            new NewTopic("java-none", 1, (short) 2));
        refused(broker, InvalidReplicaAssignmentException.class,
            new NewTopic("java-none", Map.of(0, List.of(2))));
        refused(broker, InvalidConfigurationException.class,
            new NewTopic("java-none", 1, one).configs(Map.of("no.such.config", "1")));
        refused(broker, InvalidConfigurationException.class,
            new NewTopic("java-none", 1, one).configs(Map.of("retention.ms", "soon")));
        ClientChecks.holds("not there",
            !broker.admin.listTopics().names().get().contains("java-none"));
    }

    private static <T extends Throwable> void refused(
            ClientChecks.Broker broker, Class<T> wanted, NewTopic topic) {
        T raised = ClientChecks.raises(
            wanted, () -> broker.admin.createTopics(List.of(topic)).all().get());
        ClientChecks.holds("a message: " + raised, raised.getMessage().length() > 10);
    }

    private static void validateOnly(ClientChecks.Broker broker) throws Exception {
        CreateTopicsOptions only = new CreateTopicsOptions().validateOnly(true);
        NewTopic fine = new NewTopic("java-only", 2, (short) 1);
        broker.admin.createTopics(List.of(fine), only).all().get();
        ClientChecks.raises(InvalidPartitionsException.class, () -> broker.admin.createTopics(
            List.of(new NewTopic("java-only", 0, (short) 1)), only).all().get());
        ClientChecks.holds("not created",
            !broker.admin.listTopics().names().get().contains("java-only"));
    }

    private static void byId(ClientChecks.Broker broker) throws Exception {
        broker.create("java-id", 2, Map.of());
        Uuid id = described(broker, "java-id").topicId();
        TopicCollection.TopicIdCollection given = TopicCollection.ofTopicIds(List.of(id));
        TopicDescription found = broker.admin.describeTopics(given).allTopicIds().get().get(id);
        ClientChecks.equal("name", "java-id", found.name());
        broker.admin.deleteTopics(given).all().get();
        ClientChecks.raises(UnknownTopicIdException.class,
            () -> broker.admin.deleteTopics(given).all().get());
        ClientChecks.raises(UnknownTopicIdException.class,
            () -> broker.admin.describeTopics(given).allTopicIds().get());
    }

    private static void partitions(ClientChecks.Broker broker) throws Exception {
        broker.create("java-grows", 2, Map.of());
        broker.admin.createPartitions(Map.of("java-grows", NewPartitions.increaseTo(5)),
            new CreatePartitionsOptions().validateOnly(true)).all().get();
        ClientChecks.equal("before", 2, described(broker, "java-grows").partitions().size());
        broker.admin.createPartitions(
            Map.of("java-grows", NewPartitions.increaseTo(5))).all().get();
        ClientChecks.equal("after", 5, described(broker, "java-grows").partitions().size());
        try (var producer = broker.producer()) {
            var record = new ProducerRecord<byte[], byte[]>("java-grows", 4, null, new byte[3]);
            ClientChecks.equal("offset", 0L, producer.send(record).get().offset());
        }
        for (int count : List.of(5, 3)) {
            ClientChecks.raises(InvalidPartitionsException.class,
                () -> broker.admin.createPartitions(
                    Map.of("java-grows", NewPartitions.increaseTo(count))).all().get());
        }
        ClientChecks.raises(UnknownTopicOrPartitionException.class,
            () -> broker.admin.createPartitions(
                Map.of("java-nowhere", NewPartitions.increaseTo(2))).all().get());
    }

    private static ConfigResource topic(String name) {
        return new ConfigResource(ConfigResource.Type.TOPIC, name);
    }

    private static ConfigEntry value(
            ClientChecks.Broker broker, ConfigResource where, String name) throws Exception {
        DescribeConfigsOptions all =
            new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        Map<ConfigResource, Config> found =
            broker.admin.describeConfigs(List.of(where), all).all().get();
        return found.get(where).get(name);
    }

    private static void change(ClientChecks.Broker broker, ConfigResource where, String name,
            String text, OpType type) throws Exception {
        AlterConfigOp op = new AlterConfigOp(new ConfigEntry(name, text), type);
        broker.admin.incrementalAlterConfigs(Map.of(where, List.of(op))).all().get();
    }

    private static void topicConfigs(ClientChecks.Broker broker) throws Exception {
        broker.create("java-configs");
        ConfigResource where = topic("java-configs");
        ClientChecks.equal("default", "604800000", value(broker, where, "retention.ms").value());
        ClientChecks.holds("is default", value(broker, where, "retention.ms").isDefault());
        change(broker, where, "retention.ms", "5000", OpType.SET);
        ConfigEntry entry = value(broker, where, "retention.ms");
        ClientChecks.equal("set", "5000", entry.value());
        ClientChecks.equal("type", ConfigEntry.ConfigType.LONG, entry.type());
        ClientChecks.equal("synonyms", List.of("5000", "604800000"), entry.synonyms().stream()
            .map(ConfigEntry.ConfigSynonym::value).collect(Collectors.toList()));
        ClientChecks.holds("documentation", entry.documentation().length() > 10);
        change(broker, where, "retention.ms", null, OpType.DELETE);
        ClientChecks.equal("deleted", "604800000", value(broker, where, "retention.ms").value());
        change(broker, where, "cleanup.policy", "compact", OpType.APPEND);
        ClientChecks.equal("appended", "delete,compact",
            value(broker, where, "cleanup.policy").value());
        change(broker, where, "cleanup.policy", "delete", OpType.SUBTRACT);
        ClientChecks.equal("subtracted", "compact", value(broker, where, "cleanup.policy").value());
    }

    private static void brokerConfigs(ClientChecks.Broker broker) throws Exception {
        ConfigResource one = new ConfigResource(ConfigResource.Type.BROKER, "1");
        ConfigResource every = new ConfigResource(ConfigResource.Type.BROKER, "");
        broker.create("java-inherits");
        ClientChecks.holds("read only", value(broker, one, "node.id").isReadOnly());
        change(broker, every, "log.segment.bytes", "2097152", OpType.SET);
        change(broker, one, "log.segment.bytes", "3145728", OpType.SET);
        ClientChecks.equal("of all", "2097152", value(broker, every, "log.segment.bytes").value());
        ClientChecks.equal("of one", "3145728", value(broker, one, "log.segment.bytes").value());
        ConfigEntry entry = value(broker, topic("java-inherits"), "segment.bytes");
        ClientChecks.equal("inherited", "3145728", entry.value());
        ClientChecks.equal("from", ConfigEntry.ConfigSource.DYNAMIC_BROKER_CONFIG, entry.source());
        change(broker, one, "log.segment.bytes", null, OpType.DELETE);
        change(broker, every, "log.segment.bytes", null, OpType.DELETE);
        ClientChecks.equal("default again", "1073741824",
            value(broker, topic("java-inherits"), "segment.bytes").value());
    }

    private static void badConfigs(ClientChecks.Broker broker) throws Exception {
        broker.create("java-bad");
        ConfigResource where = topic("java-bad");
        List<AlterConfigOp> ops = List.of(
            new AlterConfigOp(new ConfigEntry("retention.ms", "5000"), OpType.SET),
            new AlterConfigOp(new ConfigEntry("segment.bytes", "-3"), OpType.SET));
        ClientChecks.raises(InvalidConfigurationException.class,
            () -> broker.admin.incrementalAlterConfigs(Map.of(where, ops)).all().get());
        ClientChecks.raises(InvalidConfigurationException.class,
            () -> change(broker, where, "no.such.config", "1", OpType.SET));
        ClientChecks.raises(InvalidConfigurationException.class,
            () -> change(broker, where, "retention.ms", "1", OpType.APPEND));
        ClientChecks.raises(UnknownTopicOrPartitionException.class,
            () -> change(broker, topic("java-nowhere"), "retention.ms", "1", OpType.SET));
        broker.admin.incrementalAlterConfigs(Map.of(where, ops.subList(0, 1)),
            new AlterConfigsOptions().validateOnly(true)).all().get();
        ClientChecks.holds("unchanged", value(broker, where, "retention.ms").isDefault());
    }

    private static ListOffsetsResultInfo offset(
            ClientChecks.Broker broker, TopicPartition where, OffsetSpec spec) throws Exception {
        return broker.admin.listOffsets(Map.of(where, spec)).partitionResult(where).get();
    }

    private static void fill(ClientChecks.Broker broker, String topic, long... times)
            throws Exception {
        broker.create(topic);
        try (var producer = broker.producer()) {
            for (long time : times) {
                producer.send(new ProducerRecord<byte[], byte[]>(
                    topic, 0, THEN + time, null, new byte[10])).get();
            }
        }
    }

    private static void offsets(ClientChecks.Broker broker) throws Exception {
        fill(broker, "java-offsets", 10, 30, 20);
        TopicPartition where = new TopicPartition("java-offsets", 0);
        Map<OffsetSpec, long[]> wanted = new HashMap<>();
        wanted.put(OffsetSpec.earliest(), new long[] {0, -1});
        wanted.put(OffsetSpec.latest(), new long[] {3, -1});
        wanted.put(OffsetSpec.maxTimestamp(), new long[] {1, THEN + 30});
        wanted.put(OffsetSpec.earliestLocal(), new long[] {0, -1});
        wanted.put(OffsetSpec.latestTiered(), new long[] {-1, -1});
        wanted.put(OffsetSpec.earliestPendingUpload(), new long[] {-1, -1});
        wanted.put(OffsetSpec.forTimestamp(THEN + 11), new long[] {1, THEN + 30});
        wanted.put(OffsetSpec.forTimestamp(THEN + 31), new long[] {-1, -1});
        for (Map.Entry<OffsetSpec, long[]> each : wanted.entrySet()) {
            ListOffsetsResultInfo found = offset(broker, where, each.getKey());
            String which = each.getKey().getClass().getSimpleName();
            ClientChecks.equal(which, each.getValue()[0], found.offset());
            ClientChecks.equal(which + ", time", each.getValue()[1], found.timestamp());
        }
    }

    private static void deleteRecords(ClientChecks.Broker broker) throws Exception {
        fill(broker, "java-deletes", 1, 2, 3, 4);
        TopicPartition where = new TopicPartition("java-deletes", 0);
        for (long[] each : new long[][] {{2, 2}, {1, 2}, {-1, 4}}) {
            ClientChecks.equal("low watermark", each[1], broker.admin.deleteRecords(
                Map.of(where, RecordsToDelete.beforeOffset(each[0])))
                .lowWatermarks().get(where).get().lowWatermark());
            ClientChecks.equal("earliest", each[1],
                offset(broker, where, OffsetSpec.earliest()).offset());
        }
        ClientChecks.raises(OffsetOutOfRangeException.class, () -> broker.admin.deleteRecords(
            Map.of(where, RecordsToDelete.beforeOffset(5))).all().get());
    }

    private static void logDirs(ClientChecks.Broker broker) throws Exception {
        fill(broker, "java-sizes", 1, 2, 3);
        Map<String, LogDirDescription> found =
            broker.admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1);
        ClientChecks.equal("directories", 1, found.size());
        LogDirDescription directory = found.values().iterator().next();
        ClientChecks.equal("error", null, directory.error());
        long total = directory.totalBytes().orElse(-1);
        long usable = directory.usableBytes().orElse(-1);
        ClientChecks.holds("total " + total + ", usable " + usable, 0 < usable && usable <= total);
        TopicPartition where = new TopicPartition("java-sizes", 0);
        // three batches of a record of ten bytes
        ClientChecks.equal("size", 3L * (61 + 17), directory.replicaInfos().get(where).size());
        ClientChecks.equal("lag", 0L, directory.replicaInfos().get(where).offsetLag());
    }

    private static void cluster(ClientChecks.Broker broker) throws Exception {
        var found = broker.admin.describeCluster(
            new DescribeClusterOptions().includeAuthorizedOperations(true));
        Node node = found.controller().get();
        ClientChecks.equal("controller", 1, node.id());
        ClientChecks.equal("address", broker.address, node.host() + ":" + node.port());
        ClientChecks.equal("nodes", Set.of(node), Set.copyOf(found.nodes().get()));
        ClientChecks.equal("length of the id", 22, found.clusterId().get().length());
        QuorumInfo quorum = broker.admin.describeMetadataQuorum().quorumInfo().get();
        ClientChecks.equal("leader", 1, quorum.leaderId());
        ClientChecks.equal("voters", List.of(1), quorum.voters().stream()
            .map(QuorumInfo.ReplicaState::replicaId).collect(Collectors.toList()));
        ClientChecks.equal("features",
            Map.of("group.version", new FinalizedVersionRange((short) 1, (short) 1),
                "share.version", new FinalizedVersionRange((short) 1, (short) 1),
                "streams.version", new FinalizedVersionRange((short) 1, (short) 1),
                "transaction.version", new FinalizedVersionRange((short) 2, (short) 2)),
            broker.admin.describeFeatures().featureMetadata().get().finalizedFeatures());
    }

    private static void elections(ClientChecks.Broker broker) throws Exception {
        broker.create("java-elects", 2, Map.of());
        TopicPartition where = new TopicPartition("java-elects", 1);
        TopicPartition none = new TopicPartition("java-elects", 2);
        for (ElectionType type : ElectionType.values()) {
            var found = broker.admin.electLeaders(type, Set.of(where, none)).partitions().get();
            ClientChecks.equal("not needed", ElectionNotNeededException.class,
                found.get(where).get().getClass());
            ClientChecks.equal("unknown", UnknownTopicOrPartitionException.class,
                found.get(none).get().getClass());
        }
        ClientChecks.equal("reassignments", Map.of(),
            broker.admin.listPartitionReassignments().reassignments().get());
    }

    private AdminChecks() {
    }
}
