import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;

/** A broker in the JVM of the tools that run after it: started with its file, and stopped without. */
public final class Node {
    private static KafkaRaftServer running;

    private Node() {
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 0) {
            running.shutdown();
            return;
        }
        KafkaConfig config = KafkaConfig.fromProps(Utils.loadProps(arguments[0]));
        running = new KafkaRaftServer(config, Time.SYSTEM);
        running.startup();
    }
}
