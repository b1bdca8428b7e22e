import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts the words of the topic `lines` into the topic `counts`, exactly once, until its standard input
 * ends. Nothing is cached, so that every step of every count is a record.
 *
 * Arguments: where the broker is, a directory, and further settings as NAME=VALUE.
 */
public final class WordCount {
    private WordCount() {
    }

    public static void main(String[] arguments) throws IOException {
        try (KafkaStreams streams = new KafkaStreams(counting(), settings(arguments))) {
            streams.setUncaughtExceptionHandler(raised -> {
                raised.printStackTrace();
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.setStateListener((now, before) -> System.out.println(now));
            streams.start();
            System.in.readAllBytes();
        }
    }

    private static Topology counting() {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream("lines");
        lines.flatMapValues(line -> List.of(line.split(" ")))
            .groupBy((key, word) -> word)
            .count(Materialized.as(Stores.inMemoryKeyValueStore("words")))
            .mapValues(count -> Long.toString(count))
            .toStream()
            .to("counts", Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }

    private static Properties settings(String[] arguments) {
        Properties all = new Properties();
        all.put(StreamsConfig.APPLICATION_ID_CONFIG, "word-count");
        all.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        all.put(StreamsConfig.STATE_DIR_CONFIG, arguments[1]);
        all.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        all.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 50);
        all.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        all.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        all.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        // what a killed program leaves behind holds up the next for so long
        all.put("session.timeout.ms", 6000);
        all.put("transaction.timeout.ms", 3000);
        all.put("auto.offset.reset", "earliest");
        all.put("reconnect.backoff.max.ms", 200);
        for (String each : Arrays.asList(arguments).subList(2, arguments.length)) {
            String[] named = each.split("=", 2);
            all.put(named[0], named[1]);
        }
        return all;
    }
}
