import com.alibaba.csp.sentinel.Entry;
import com.alibaba.csp.sentinel.EntryType;
import com.alibaba.csp.sentinel.SphU;
import com.alibaba.csp.sentinel.Tracer;
import com.alibaba.csp.sentinel.datasource.ReadableDataSource;
import com.alibaba.csp.sentinel.datasource.nacos.NacosDataSource;
import com.alibaba.csp.sentinel.slots.block.BlockException;
import com.alibaba.csp.sentinel.slots.block.degrade.DegradeRule;
import com.alibaba.csp.sentinel.slots.block.degrade.DegradeRuleManager;
import com.alibaba.csp.sentinel.slots.block.flow.FlowRule;
import com.alibaba.csp.sentinel.slots.block.flow.FlowRuleManager;
import com.alibaba.csp.sentinel.slots.block.flow.param.ParamFlowItem;
import com.alibaba.csp.sentinel.slots.block.flow.param.ParamFlowRule;
import com.alibaba.csp.sentinel.slots.block.flow.param.ParamFlowRuleManager;
import com.alibaba.fastjson.JSON;
import com.alibaba.nacos.api.NacosFactory;
import com.alibaba.nacos.api.PropertyKeyConst;
import com.alibaba.nacos.api.config.ConfigService;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * A Java service that follows flow, degrade and param-flow rules in Nacos, as Java services do. Arguments: server, group.
 * Reads commands, one a line, and answers each with a line of JSON:
 *
 *   rules                          how many rules of each kind are active
 *   call RESOURCE TIMES [VALUE]    what became of so many calls
 *   fail RESOURCE TIMES            the same, each call failing with an exception that is traced
 *   publish                        writes rules of its own under the three dataIds
 */
public class JavaService {
    private static final String FLOW = "sentinel-flow-rules";
    private static final String DEGRADE = "sentinel-degrade-rules";
    private static final String PARAM_FLOW = "sentinel-param-flow-rules";

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // libraries greet on standard output
        Properties properties = new Properties();
        properties.put(PropertyKeyConst.SERVER_ADDR, arguments[0]);
        String group = arguments[1];
        ReadableDataSource<String, List<FlowRule>> flow =
            new NacosDataSource<>(properties, group, FLOW, text -> JSON.parseArray(text, FlowRule.class));
        FlowRuleManager.register2Property(flow.getProperty());
        ReadableDataSource<String, List<DegradeRule>> degrade =
            new NacosDataSource<>(properties, group, DEGRADE, text -> JSON.parseArray(text, DegradeRule.class));
        DegradeRuleManager.register2Property(degrade.getProperty());
        ReadableDataSource<String, List<ParamFlowRule>> paramFlow =
            new NacosDataSource<>(properties, group, PARAM_FLOW, text -> JSON.parseArray(text, ParamFlowRule.class));
        ParamFlowRuleManager.register2Property(paramFlow.getProperty());
        ConfigService writer = NacosFactory.createConfigService(properties);

        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            Map<String, Object> answer = new LinkedHashMap<>();
            switch (words[0]) {
                case "rules":
                    answer.put("flow", FlowRuleManager.getRules().size());
                    answer.put("degrade", DegradeRuleManager.getRules().size());
                    answer.put("param_flow", ParamFlowRuleManager.getRules().size());
                    break;
                case "call":
                    answer = calls(words[1], Integer.parseInt(words[2]), words.length > 3 ? words[3] : null, false);
                    break;
                case "fail":
                    answer = calls(words[1], Integer.parseInt(words[2]), null, true);
                    break;
                default:
                    answer.put("published", publish(writer, group));
            }
            answers.println(JSON.toJSONString(answer));
            answers.flush();
        }
        System.exit(0); // Nacos' threads would keep it alive
    }

    private static Map<String, Object> calls(String resource, int times, String value, boolean failing) {
        int passed = 0;
        Map<String, Integer> blocked = new LinkedHashMap<>();
        for (int number = 0; number < times; number++) {
            Object[] values = value == null ? new Object[0] : new Object[] {value};
            try (Entry entry = SphU.entry(resource, EntryType.IN, 1, values)) {
                passed++;
                if (failing) {
                    Tracer.traceEntry(new IllegalStateException("failed"), entry);
                }
            } catch (BlockException refused) {
                blocked.merge(refused.getClass().getSimpleName(), 1, Integer::sum);
            }
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("passed", passed);
        answer.put("blocked", blocked);
        return answer;
    }

    private static boolean publish(ConfigService writer, String group) throws Exception {
        FlowRule flow = new FlowRule("java:flow");
        flow.setCount(2);
        DegradeRule degrade = new DegradeRule("java:degrade");
        degrade.setGrade(2);
        degrade.setCount(2);
        degrade.setTimeWindow(30);
        degrade.setMinRequestAmount(1);
        ParamFlowRule paramFlow = new ParamFlowRule("java:param");
        paramFlow.setParamIdx(0);
        paramFlow.setCount(1);
        ParamFlowItem vip = new ParamFlowItem("vip", 3, String.class.getName());
        paramFlow.setParamFlowItemList(new ArrayList<>(Collections.singletonList(vip)));
        return writer.publishConfig(FLOW, group, JSON.toJSONString(Arrays.asList(flow)))
            && writer.publishConfig(DEGRADE, group, JSON.toJSONString(Arrays.asList(degrade)))
            && writer.publishConfig(PARAM_FLOW, group, JSON.toJSONString(Arrays.asList(paramFlow)));
    }
}
