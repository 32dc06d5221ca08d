package operator

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/helm"
	"github.com/sealift/sealift/helm/release"
	"github.com/sealift/sealift/operator/lifecycle"
	"github.com/sealift/sealift/operator/module"
)

// AddonOperatorName is the name by which sealift-controller is Flant's addon-operator.
const AddonOperatorName = "addon-operator"

// The variables of addon-operator that have several spellings. The longest one wins.
var spellings = map[string]string{
	"modules-dir":              "MODULES_DIR ADDON_OPERATOR_MODULES_DIR",
	"global-hooks-dir":         "GLOBAL_HOOKS_DIR ADDON_OPERATOR_GLOBAL_HOOKS_DIR",
	"unnumbered-modules-order": "UNNUMBERED_MODULE_ORDER UNNUMBERED_MODULES_ORDER ADDON_OPERATOR_UNNUMBERED_MODULES_ORDER",
}

// moduleFlags are the settings of modules, by addon-operator's names.
type moduleFlags struct {
	modulesDir, globalHooksDir, order string
	configMap, crdLabels, crdPrefixes string
	ignoreRelease, helmDriver         string
	extenders                         string
	strict                            bool
	helmTimeout                       time.Duration
	helmHistory                       string
	warnings                          []string // of variables that differ
	helmTimeoutMistake                string
}

// setting reads a setting with one or more spellings in the environment.
func (f *moduleFlags) setting(flag, variables, fallback string) string {
	value, from := "", ""
	for variable := range strings.FieldsSeq(variables) { // the longer last
		given := os.Getenv(variable)
		if given != "" && value != "" && given != value {
			f.warnings = append(f.warnings, fmt.Sprintf("%s and %s differ; --%s is what %s says", from, variable, flag, variable))
		}
		if given != "" {
			value, from = given, variable
		}
	}
	return cmp.Or(value, fallback)
}

func (f *moduleFlags) add(cmd *cobra.Command, called string) {
	folder := ""
	if called == AddonOperatorName {
		folder = "/modules"
	}
	text := func(target *string, flag, variables, fallback, usage string) {
		cmd.Flags().StringVar(target, flag, f.setting(flag, variables, fallback), usage+" ["+strings.ReplaceAll(variables, " ", ", ")+"]")
	}
	text(&f.modulesDir, "modules-dir", spellings["modules-dir"], folder, "folders of modules, separated by colons; without them, the hooks of --hooks-dir run")
	if called == ShellOperatorName {
		cmd.Flags().Lookup("modules-dir").DefValue, f.modulesDir = "", ""
	}
	text(&f.globalHooksDir, "global-hooks-dir", spellings["global-hooks-dir"], "/global-hooks", "folder of global hooks")
	text(&f.order, "unnumbered-modules-order", spellings["unnumbered-modules-order"], strconv.Itoa(module.DefaultOrder), "order of modules without a number")
	text(&f.configMap, "config-map", "ADDON_OPERATOR_CONFIG_MAP", "addon-operator", "ConfigMap with the values that administrators set")
	text(&f.crdLabels, "crd-extra-labels", "ADDON_OPERATOR_CRD_EXTRA_LABELS", "heritage=addon-operator", "labels of CustomResourceDefinitions of modules")
	text(&f.crdPrefixes, "crd-filter-prefixes", "ADDON_OPERATOR_CRD_FILTER_PREFIXES", helm.DefinitionPrefixes, "beginnings of names of files in crds/ that are left out")
	text(&f.ignoreRelease, "helm-ignore-release", "HELM_IGNORE_RELEASE", "", "release that is of no module: that of the operator itself")
	text(&f.extenders, "applied-module-extenders", "ADDON_OPERATOR_APPLIED_MODULE_EXTENDERS", "",
		"who may switch modules on and off, later ones win: of Static, DynamicallyEnabled, KubeConfig and ScriptEnabled (default: all, in this order)")
	strict, _ := strconv.ParseBool(os.Getenv("STRICT_CHECK_VALUES_MODE_ENABLED"))
	cmd.Flags().BoolVar(&f.strict, "strict-check-values-mode-enabled", strict, "require values.yaml beside the modules [STRICT_CHECK_VALUES_MODE_ENABLED]")
	text(&f.helmHistory, "helm-history-max", "HELM_HISTORY_MAX", "10", "revisions of a release that are kept; 0 keeps all")
	text(&f.helmDriver, "helm-driver", "HELM_DRIVER", "secret", "where releases are kept: secret or configmap")
	timeout := 20 * time.Minute
	if text := os.Getenv("HELM_TIMEOUT"); text != "" {
		var err error
		if timeout, err = time.ParseDuration(text); err != nil {
			f.helmTimeoutMistake = text
		}
	}
	cmd.Flags().DurationVar(&f.helmTimeout, "helm-timeout", timeout, "how long Helm waits for hooks of charts [HELM_TIMEOUT]")
}

// on reports whether there are modules.
func (f *moduleFlags) on() bool { return f.modulesDir != "" }

// settle sets the flags that shell-operator and addon-operator share to addon-operator's values.
func (f *moduleFlags) settle(cmd *cobra.Command, s *startFlags) {
	for _, shared := range []struct {
		flag, variable, fallback string
		target                   *string
	}{
		{"tmp-dir", "ADDON_OPERATOR_TMP_DIR", "", &s.tmpDir},
		{"listen-address", "ADDON_OPERATOR_LISTEN_ADDRESS", "0.0.0.0", &s.address},
		{"listen-port", "ADDON_OPERATOR_LISTEN_PORT", "9650", &s.port},
		{"prometheus-metrics-prefix", "ADDON_OPERATOR_PROMETHEUS_METRICS_PREFIX", "addon_operator_", &s.prefix},
		{"namespace", "ADDON_OPERATOR_NAMESPACE", s.webhooks.namespace, &s.webhooks.namespace},
		{"pod", "ADDON_OPERATOR_POD", s.replicas.pod, &s.replicas.pod},
		{"debug-unix-socket", "DEBUG_UNIX_SOCKET", addonSocket, &s.socket},
	} {
		if !cmd.Flags().Changed(shared.flag) {
			*shared.target = fromEnvironment(shared.variable, shared.fallback)
		}
	}
	if !cmd.Flags().Changed("ha") {
		s.replicas.several, _ = strconv.ParseBool(os.Getenv("ADDON_OPERATOR_HA"))
	}
}

func (f *moduleFlags) options(cluster *rest.Config, namespace string, log *slog.Logger) (*lifecycle.Options, error) {
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); name == "HELM2" || strings.HasPrefix(name, "TILLER_") {
			return nil, app.UsageError("%s is set: Helm 2 is not supported; migrate the releases to Helm 3 first", name)
		}
	}
	if namespace == "" {
		return nil, app.UsageError("modules need the namespace of the operator; say --namespace, or set ADDON_OPERATOR_NAMESPACE")
	}
	if f.helmTimeoutMistake != "" {
		return nil, app.UsageError("HELM_TIMEOUT %q is not a duration such as 20m", f.helmTimeoutMistake)
	}
	for _, warning := range f.warnings {
		log.Warn("two variables of one setting differ", "setting", warning)
	}
	order, err := strconv.Atoi(f.order)
	history, err2 := strconv.Atoi(f.helmHistory)
	if err := errors.Join(err, err2); err != nil {
		return nil, app.UsageError("--unnumbered-modules-order and --helm-history-max are numbers: %v", err)
	}
	labels := map[string]string{}
	for _, pair := range strings.FieldsFunc(f.crdLabels, func(r rune) bool { return r == ',' }) {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, app.UsageError("--crd-extra-labels %q: %q is not key=value", f.crdLabels, pair)
		}
		labels[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	if f.helmDriver != "secret" && f.helmDriver != "configmap" {
		return nil, app.UsageError("--helm-driver %q is neither secret nor configmap", f.helmDriver)
	}
	extenders, err := module.ParseExtenders(f.extenders)
	if err != nil {
		return nil, app.UsageError("--applied-module-extenders: %v", err)
	}
	if history == 0 {
		history = -1 // as in upstream: no limit
	}
	client, err := release.New(release.Config{Cluster: cluster, Namespace: namespace, ConfigMaps: f.helmDriver == "configmap"})
	if err != nil {
		return nil, err
	}
	return &lifecycle.Options{
		ModulesDir: f.modulesDir, GlobalHooksDir: f.globalHooksDir, DefaultOrder: order, Extenders: extenders, Strict: f.strict,
		Namespace: namespace, ConfigMap: f.configMap,
		Releases:         release.NewModules(client, release.ModuleOptions{MaxHistory: history, Timeout: f.helmTimeout}),
		IgnoreRelease:    f.ignoreRelease,
		DefinitionLabels: labels, DefinitionPrefixes: f.crdPrefixes,
	}, nil
}

func (a commands) globalCommand(called string) *cobra.Command {
	group := &cobra.Command{Use: "global", Short: "Look at global hooks and global values of a running operator"}
	group.AddCommand(
		a.lookCommand("list", "List the global hooks", called+" global list", "/global/list", "text, yaml or json", "text"),
		a.lookCommand("values", "Print global values as hooks see them", called+" global values", "/global/values", "yaml or json", "yaml"),
		a.lookCommand("config", "Print what the ConfigMap says of global values", called+" global config", "/global/config", "yaml or json", "yaml"),
		a.lookCommand("patches", "Print the patches of global values that hooks have made", called+" global patches", "/global/patches", "yaml or json", "json"),
		a.lookCommand("snapshots", "Print the objects that global hooks see", called+" global snapshots", "/global/snapshots", "yaml or json", "yaml"),
	)
	return group
}

func (a commands) moduleCommand(called string) *cobra.Command {
	group := &cobra.Command{Use: "module", Short: "Look at the modules of a running operator"}
	group.AddCommand(
		a.lookCommand("list", "List all modules, whether they are on, and why", called+" module list", "/module/list", "text, yaml or json", "text"),
		a.lookCommand("resource-monitor", "Look for the objects of charts, and name those that are absent", called+" module resource-monitor",
			"/module/resource-monitor", "text, yaml or json", "text"),
		a.lookCommand("values MODULE", "Print the values of a module as hooks see them", called+" module values ingress", "/module/%s/values", "yaml or json", "yaml"),
		a.lookCommand("config MODULE", "Print what the ConfigMap says of a module's values", called+" module config ingress", "/module/%s/config", "yaml or json", "yaml"),
		a.lookCommand("patches MODULE", "Print the patches of a module's values that hooks have made", called+" module patches ingress", "/module/%s/patches", "yaml or json", "json"),
		a.lookCommand("snapshots MODULE", "Print the objects that the hooks of a module see", called+" module snapshots ingress", "/module/%s/snapshots", "yaml or json", "yaml"),
		a.lookCommand("render MODULE", "Print what the chart of a module rendered to when it last ran", called+" module render ingress", "/module/%s/render", "yaml", "yaml"),
	)
	return group
}

// lookCommand prints the operator's response for a path. %s in it is the argument.
func (a commands) lookCommand(use, short, example, path, formats, fallback string) *cobra.Command {
	var f debugFlags
	cmd := &cobra.Command{
		Use: use, Short: short, Example: "  " + example, Args: cobra.ExactArgs(strings.Count(path, "%s")),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if strings.Contains(name, "/") {
					return app.UsageError("%q is not the name of a module", name)
				}
				path = fmt.Sprintf(path, name)
			}
			return a.ask(cmd, f, path, "")
		},
	}
	f.add(cmd, formats, fallback, example)
	return cmd
}
