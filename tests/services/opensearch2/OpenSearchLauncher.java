import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.opensearch.analysis.common.CommonAnalysisPlugin;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.index.mapper.MapperExtrasPlugin;
import org.opensearch.index.reindex.ReindexPlugin;
import org.opensearch.node.Node;
import org.opensearch.painless.PainlessPlugin;
import org.opensearch.plugins.Plugin;
import org.opensearch.transport.Netty4Plugin;

/** One node with the modules of the ordinary distribution that are asked for here: OpenSearchLauncher FOLDER HTTP_PORT TRANSPORT_PORT. */
public final class OpenSearchLauncher extends Node {
    private OpenSearchLauncher(Environment environment, List<Class<? extends Plugin>> modules) {
        super(environment, modules, false);
    }

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        Files.createDirectories(folder.resolve("config"));
        Settings settings = Settings.builder()
            .put("cluster.name", "tests").put("node.name", "one")
            .put("path.home", folder).put("path.data", folder.resolve("data")).put("path.logs", folder.resolve("logs"))
            .put("network.host", "127.0.0.1").put("http.port", arguments[1]).put("transport.port", arguments[2])
            .put("http.type", "netty4").put("transport.type", "netty4")
            .put("discovery.type", "single-node")
            .put("node.store.allow_mmap", false)
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .build();
        OpenSearchLauncher node = new OpenSearchLauncher(new Environment(settings, folder.resolve("config")), List.of(
            Netty4Plugin.class, PainlessPlugin.class, CommonAnalysisPlugin.class, ReindexPlugin.class, MapperExtrasPlugin.class));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                node.close();
            } catch (Exception error) {
                error.printStackTrace();
            }
        }));
        node.start();
        Thread.currentThread().join();
    }
}
