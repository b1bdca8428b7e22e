import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's tools one after the other in one JVM, because each start of a JVM costs a second.
 *
 * Asked on standard input: the number of words, the words (the main class first), what the tool reads
 * on its standard input. Answered on standard output: how it ended, what it said on both outputs. Every
 * text is a length in four bytes and UTF-8.
 */
public final class Tools {
    /** Thrown where a tool would end the JVM. */
    private static final class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    /** One run of a tool. What it does after it wanted to end the JVM counts for nothing. */
    private static final class Run {
        final ByteArrayOutputStream said = new ByteArrayOutputStream();
        final ByteArrayOutputStream complained = new ByteArrayOutputStream();
        boolean hasEnded;
        int code;

        void speak() {
            System.setOut(new PrintStream(said, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
        }

        void end(int wanted, String message) {
            if (hasEnded) {
                return;
            }
            if (message != null) {
                System.err.println(message);
            }
            System.out.flush();
            System.err.flush();
            System.setOut(new PrintStream(OutputStream.nullOutputStream()));
            System.setErr(new PrintStream(OutputStream.nullOutputStream()));
            hasEnded = true;
            code = wanted;
        }

        /** What a real JVM would run on its way out. */
        void runHooks() {
            speak();
            AT_THE_END.forEach(Runnable::run);
            AT_THE_END.clear();
            System.out.flush();
            System.err.flush();
        }
    }

    private static volatile Run current;
    private static final List<Runnable> AT_THE_END = new ArrayList<>();

    public static void main(String[] none) throws IOException {
        Exit.Procedure end = (code, message) -> {
            current.end(code, message);
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        Exit.setShutdownHookAdder((name, hook) -> AT_THE_END.add(hook));
        DataInputStream asked = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(new FileOutputStream(FileDescriptor.out));
        while (true) {
            String[] words;
            try {
                words = new String[asked.readInt()];
            } catch (EOFException closed) {
                return;
            }
            for (int i = 0; i < words.length; i++) {
                words[i] = new String(read(asked), StandardCharsets.UTF_8);
            }
            answer(words, read(asked), answers);
        }
    }

    private static void answer(String[] words, byte[] input, DataOutputStream answers)
            throws IOException {
        current = new Run();
        System.setIn(new ByteArrayInputStream(input));
        current.speak();
        run(words);
        current.end(0, null);
        current.runHooks();
        answers.writeInt(current.code);
        write(answers, current.said.toByteArray());
        write(answers, current.complained.toByteArray());
        answers.flush();
    }

    private static void run(String[] words) {
        String[] arguments = Arrays.copyOfRange(words, 1, words.length);
        try {
            Class.forName(words[0]).getMethod("main", String[].class)
                .invoke(null, (Object) arguments);
        } catch (InvocationTargetException raised) {
            fail(raised.getCause());
        } catch (ReflectiveOperationException none) {
            fail(none);
        }
    }

    private static void fail(Throwable raised) {
        raised.printStackTrace(System.err);
        current.end(1, null);
    }

    private static byte[] read(DataInputStream from) throws IOException {
        return from.readNBytes(from.readInt());
    }

    private static void write(DataOutputStream to, byte[] text) throws IOException {
        to.writeInt(text.length);
        to.write(text);
    }
}
