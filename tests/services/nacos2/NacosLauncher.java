import com.alibaba.nacos.core.code.ControllerMethodsCache;
import javax.annotation.PostConstruct;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.web.servlet.ServletComponentScan;
import org.springframework.scheduling.annotation.EnableScheduling;

/** Nacos 2 without its console, whose jar has the main class and is not published. */
@SpringBootApplication(scanBasePackages = "com.alibaba.nacos")
@ServletComponentScan(basePackages = "com.alibaba.nacos")
@EnableScheduling
public class NacosLauncher {
    @Autowired
    private ControllerMethodsCache methods;

    /** Without it no HTTP call is ever asked for a login: the filter does not know what is called. */
    @PostConstruct
    public void knowMethods() {
        methods.initClassMethod("com.alibaba.nacos.core.controller");
        methods.initClassMethod("com.alibaba.nacos.config.server.controller");
    }

    public static void main(String[] args) {
        SpringApplication.run(NacosLauncher.class, args);
    }
}
