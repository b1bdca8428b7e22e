package appliance_spark;

// Rules for Spark's plans, see registration.py. The driver compiles them with the compiler that Spark
// has for its own code, which knows no generics: hence the raw types.

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

public class ScanRules {
    /** For the optimizer. */
    public static scala.Function1 ofBatches() {
        return new scala.runtime.AbstractFunction1() {
            public Object apply(Object session) {
                return new BatchRule((SparkSession) session);
            }
        };
    }

    /** For the analyzer: a stream's plan is taken before it is optimized. */
    public static scala.Function1 ofStreams() {
        return new scala.runtime.AbstractFunction1() {
            public Object apply(Object session) {
                return new StreamRule();
            }
        };
    }
}

abstract class Change extends scala.runtime.AbstractPartialFunction {
    static final String SOURCE = "appliance";

    /** Null: this node stays as it is. */
    abstract Object changed(Object node);

    public boolean isDefinedAt(Object node) {
        return changed(node) != null;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
        Object made = changed(node);
        return made == null ? otherwise.apply(node) : made;
    }

    static boolean isOurs(Table table) {
        return table instanceof PythonTable && SOURCE.equals(table.name());
    }

    /** Versions of Spark differ in how many fields a node has, not in what these are. */
    static Object with(TreeNode node, IdentityHashMap others) {
        Object[] fields = new Object[node.productArity()];
        for (int i = 0; i < fields.length; i++) {
            Object field = node.productElement(i);
            fields[i] = others.containsKey(field) ? others.get(field) : field;
        }
        return node.makeCopy(fields);
    }
}

class BatchRule extends Rule {
    private final BatchScans change;

    BatchRule(SparkSession session) {
        change = new BatchScans(session);
    }

    public TreeNode apply(TreeNode plan) {
        return ((LogicalPlan) plan).transformDown(change);
    }
}

/** A scan reads just the columns that its query uses, as of the moment when it is planned. */
class BatchScans extends Change {
    static final String CHEAPEST = "partition"; // count() needs rows of something
    private final SparkSession session;

    BatchScans(SparkSession session) {
        this.session = session;
    }

    /** Nothing of the wide table, which keeps its first plan for all that is asked of it. */
    static class Fresh extends PythonTable {
        Fresh(PythonDataSourceV2 source, StructType schema) {
            super(source, SOURCE, schema);
        }
    }

    Object changed(Object node) {
        if (node instanceof DataSourceV2Relation) {
            DataSourceV2Relation scan = (DataSourceV2Relation) node;
            boolean isNew = scan.table() instanceof Fresh;
            return isNew ? null : scan(scan, scan.outputSet());
        }
        if (!(node instanceof Project)) {
            return null;
        }
        Project project = (Project) node;
        AttributeSet used = project.references();
        if (!(project.child() instanceof Filter)) {
            Object scan = scan(project.child(), used);
            return scan == null ? null : new Project(project.projectList(), (LogicalPlan) scan);
        }
        Filter filter = (Filter) project.child();
        Object scan = scan(filter.child(), used.$plus$plus(filter.references()));
        return scan == null ? null : new Project(
            project.projectList(), new Filter(filter.condition(), (LogicalPlan) scan));
    }

    private Object scan(Object node, AttributeSet used) {
        if (!(node instanceof DataSourceV2Relation)) {
            return null;
        }
        DataSourceV2Relation scan = (DataSourceV2Relation) node;
        List columns = columns(scan.output(), used);
        boolean isNarrower = columns.size() < scan.output().size();
        if (!isOurs(scan.table()) || (scan.table() instanceof Fresh && !isNarrower)) {
            return null;
        }
        IdentityHashMap others = new IdentityHashMap();
        others.put(scan.table(), fresh(columns));
        others.put(scan.output(), scala.jdk.javaapi.CollectionConverters.asScala(columns).toList());
        others.put(scan.options(), options(scan));
        return with(scan, others);
    }

    private static List columns(scala.collection.Seq output, AttributeSet used) {
        List columns = new ArrayList();
        Object cheapest = output.head();
        for (int i = 0; i < output.size(); i++) {
            Attribute column = (Attribute) output.apply(i);
            if (used.contains(column)) {
                columns.add(column);
            }
            if (CHEAPEST.equals(column.name())) {
                cheapest = column;
            }
        }
        if (columns.isEmpty()) {
            columns.add(cheapest);
        }
        return columns;
    }

    private static Table fresh(List columns) {
        StructField[] fields = new StructField[columns.size()];
        for (int i = 0; i < fields.length; i++) {
            Attribute column = (Attribute) columns.get(i);
            fields[i] = new StructField(
                column.name(), column.dataType(), column.nullable(), column.metadata());
        }
        PythonDataSourceV2 source = new PythonDataSourceV2();
        source.setShortName(SOURCE);
        return new Fresh(source, new StructType(fields));
    }

    /** Those of CREATE TABLE: Spark keeps them, and does not hand them to a source in Python. */
    private CaseInsensitiveStringMap options(DataSourceV2Relation scan) {
        boolean isNamed = scan.catalog().isDefined() && scan.identifier().isDefined();
        if (!isNamed || !"spark_catalog".equals(((CatalogPlugin) scan.catalog().get()).name())) {
            return scan.options();
        }
        CatalogTable table = table((Identifier) scan.identifier().get());
        Map kept = scala.jdk.javaapi.CollectionConverters.asJava(table.storage().properties());
        Map options = new HashMap(new CaseInsensitiveStringMap(kept));
        options.putAll(scan.options());
        return new CaseInsensitiveStringMap(options);
    }

    private CatalogTable table(Identifier name) {
        scala.Option database = scala.Option.apply(name.namespace()[0]);
        try {
            return session.sessionState().catalog().getTableMetadata(
                new TableIdentifier(name.name(), database));
        } catch (Exception error) { // it was dropped since the query was analyzed
            throw new IllegalStateException(error.getMessage(), error);
        }
    }
}

class StreamRule extends Rule {
    private final StreamScans change = new StreamScans();

    public TreeNode apply(TreeNode plan) {
        return ((LogicalPlan) plan).resolveOperators(change);
    }
}

/** A stream tells in its progress how far it is behind. */
class StreamScans extends Change {
    Object changed(Object node) {
        if (!(node instanceof StreamingRelationV2)) {
            return null;
        }
        StreamingRelationV2 stream = (StreamingRelationV2) node;
        if (!isOurs(stream.table())) {
            return null;
        }
        IdentityHashMap others = new IdentityHashMap();
        others.put(stream.table(), Measured.of(stream.table()));
        return with(stream, others);
    }
}

/** Spark's own object with all its interfaces, and what is made of it down to the stream. */
class Measured implements InvocationHandler {
    static final List MAKERS = java.util.Arrays.asList(
        new Object[] {"newScanBuilder", "build", "toMicroBatchStream"});
    private final Object inner;
    private Object latest; // of the last batch that was planned

    Measured(Object inner) {
        this.inner = inner;
    }

    static Object of(Object inner) {
        Set interfaces = new LinkedHashSet();
        for (Class each = inner.getClass(); each != null; each = each.getSuperclass()) {
            interfaces.addAll(java.util.Arrays.asList(each.getInterfaces()));
        }
        if (inner instanceof MicroBatchStream) {
            interfaces.add(ReportsSourceMetrics.class);
        }
        Class[] all = (Class[]) interfaces.toArray(new Class[0]);
        ClassLoader loader = Measured.class.getClassLoader();
        return java.lang.reflect.Proxy.newProxyInstance(loader, all, new Measured(inner));
    }

    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        String name = method.getName();
        if (name.equals("metrics")) {
            return Behind.metrics((Optional) arguments[0], latest);
        }
        if (name.equals("equals")) {
            return Boolean.valueOf(proxy == arguments[0]);
        }
        if (name.equals("toString")) { // what progress calls the source
            return Change.SOURCE;
        }
        Object made = called(method, arguments);
        if (made != null && name.equals(endTeller())) {
            latest = made;
        }
        return MAKERS.contains(name) ? of(made) : made;
    }

    /** Whose latestOffset is the end of a batch tells the end of the log by another name. */
    private String endTeller() {
        boolean isBounded = inner instanceof SupportsAdmissionControl;
        return isBounded ? "reportLatestOffset" : "latestOffset";
    }

    private Object called(Method method, Object[] arguments) throws Throwable {
        try {
            return method.invoke(inner, arguments);
        } catch (InvocationTargetException error) {
            throw Told.of(error.getTargetException());
        }
    }
}

/** Java lets no other than declared exceptions through, and Scala declares none. */
class Told extends RuntimeException implements SparkThrowable {
    Told(Throwable error) {
        super(error.getMessage(), error);
    }

    static Throwable of(Throwable error) {
        return error instanceof SparkThrowable && !(error instanceof RuntimeException)
            ? new Told(error) : error;
    }

    private SparkThrowable error() {
        return (SparkThrowable) getCause();
    }

    public String getCondition() {
        return error().getCondition();
    }

    public String getErrorClass() {
        return error().getCondition();
    }

    public String getSqlState() {
        return error().getSqlState();
    }

    public Map getMessageParameters() {
        return error().getMessageParameters();
    }
}

/** The same figures as Spark's Kafka connector has, under the same names. */
class Behind {
    static final String ID = "id";

    static Map metrics(Optional read, Object latest) throws java.io.IOException {
        Map metrics = new HashMap();
        List behind = read.isPresent() && latest != null
            ? behind(json((Offset) read.get()), json((Offset) latest)) : new ArrayList();
        if (behind.isEmpty()) {
            return metrics;
        }
        long sum = 0;
        for (Iterator each = behind.iterator(); each.hasNext();) {
            sum += ((Long) each.next()).longValue();
        }
        metrics.put("minOffsetsBehindLatest", Collections.min(behind).toString());
        metrics.put("maxOffsetsBehindLatest", Collections.max(behind).toString());
        metrics.put("avgOffsetsBehindLatest", String.valueOf((double) sum / behind.size()));
        return metrics;
    }

    private static JsonNode json(Offset offset) throws java.io.IOException {
        return (JsonNode) new ObjectMapper().readTree(offset.json());
    }

    /** Or a node of nothing. */
    private static JsonNode in(JsonNode node, String name) {
        return (JsonNode) node.path(name);
    }

    private static List behind(JsonNode read, JsonNode latest) {
        List behind = new ArrayList();
        for (Iterator topics = latest.fieldNames(); topics.hasNext();) {
            String topic = (String) topics.next();
            JsonNode end = in(latest, topic);
            JsonNode start = in(read, topic);
            boolean isSame = in(start, ID).asText().equals(in(end, ID).asText());
            for (Iterator numbers = end.fieldNames(); numbers.hasNext();) {
                String number = (String) numbers.next();
                if (!number.equals(ID)) {
                    long from = isSame ? in(start, number).asLong() : 0;
                    behind.add(Long.valueOf(Math.max(0, in(end, number).asLong() - from)));
                }
            }
        }
        return behind;
    }
}
