import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.web.servlet.ServletComponentScan;
import org.springframework.scheduling.annotation.EnableScheduling;

/** Nacos 2 without its console, whose jar has the main class and is not published. */
@SpringBootApplication(scanBasePackages = "com.alibaba.nacos")
@ServletComponentScan(basePackages = "com.alibaba.nacos")
@EnableScheduling
public class NacosLauncher {
    public static void main(String[] args) {
        SpringApplication.run(NacosLauncher.class, args);
    }
}
