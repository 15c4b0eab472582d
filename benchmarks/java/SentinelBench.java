import com.alibaba.csp.sentinel.Entry;
import com.alibaba.csp.sentinel.SphU;
import com.alibaba.csp.sentinel.slots.block.degrade.DegradeRule;
import com.alibaba.csp.sentinel.slots.block.degrade.DegradeRuleManager;
import com.alibaba.csp.sentinel.slots.block.flow.FlowRule;
import com.alibaba.csp.sentinel.slots.block.flow.FlowRuleManager;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.Collections;
import java.util.concurrent.CyclicBarrier;

/** Java Sentinel with one flow rule and one breaker; serves rounds as benchmarks/peer_worker.py does. */
public class SentinelBench {
    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // Sentinel greets on standard output
        FlowRule flow = new FlowRule("r");
        flow.setCount(1e9);
        FlowRuleManager.loadRules(Collections.singletonList(flow));
        DegradeRule breaker = new DegradeRule("r");
        breaker.setGrade(1);
        breaker.setCount(0.5);
        breaker.setTimeWindow(10);
        DegradeRuleManager.loadRules(Collections.singletonList(breaker));
        measure(1, 2_000_000); // so that the machine has compiled it

        BufferedReader rounds = new BufferedReader(new InputStreamReader(System.in));
        for (String line = rounds.readLine(); line != null; line = rounds.readLine()) {
            String[] words = line.split(" ");
            answers.println(measure(Integer.parseInt(words[1]), Integer.parseInt(words[2])));
        }
        System.exit(0);
    }

    /** Wall ns of one entry and exit as each of the threads sees it. */
    private static double measure(int threads, int calls) throws Exception {
        CyclicBarrier start = new CyclicBarrier(threads + 1);
        CyclicBarrier end = new CyclicBarrier(threads + 1);
        for (int number = 0; number < threads; number++) {
            Thread thread = new Thread(() -> {
                try {
                    start.await();
                    for (int call = 0; call < calls; call++) {
                        Entry entry = SphU.entry("r");
                        entry.exit();
                    }
                    end.await();
                } catch (Exception error) {
                    error.printStackTrace();
                    System.exit(1);
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
        start.await();
        long began = System.nanoTime();
        end.await();
        return (System.nanoTime() - began) / (double) calls;
    }
}
