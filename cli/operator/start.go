package operator

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/operator"
	"github.com/sealift/sealift/operator/engine"
	"github.com/sealift/sealift/operator/hook"
	"github.com/sealift/sealift/operator/lifecycle"
)

// The socket paths of shell-operator and addon-operator.
const (
	defaultSocket = "/var/run/shell-operator/debug.socket"
	addonSocket   = "/var/run/addon-operator/debug.socket"
)

// startFlags are the settings of an operator, by shell-operator's names.
type startFlags struct {
	hooksDir, tmpDir, address, port, prefix, socket string
	logType, logLevel                               string
	noTime, hookJSON, keepFiles                     bool
	hookEnv                                         []string
	hookUser                                        string
	hookTimeout                                     time.Duration
	client                                          clientFlags
	webhooks                                        webhookFlags
	replicas                                        replicaFlags
	modules                                         moduleFlags
}

// fromEnvironment is a setting of shell-operator, or its default.
func fromEnvironment(name, fallback string) string { return cmp.Or(os.Getenv(name), fallback) }

// otherNames are names of flags that addon-operator has and shell-operator has not.
var otherNames = map[string]string{
	"prometheus-listen-address": "listen-address", "prometheus-listen-port": "listen-port", "crd-filters": "crd-filter-prefixes",
}

func (a commands) startCommand(called string) *cobra.Command {
	var f startFlags
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Run the hooks of a folder, or modules, until SIGTERM",
		Long: `Run the hooks of a folder until SIGTERM, or modules if --modules-dir says where they are. The environment variables of
shell-operator set the defaults of the flags that name them; with modules, those of addon-operator do.

In a Pod, the operator works in the cluster of the Pod as its ServiceAccount. Hooks run as the user of the operator and see
its environment, unless --hook-user and --hook-env say otherwise.`,
		Example: fmt.Sprintf("  %[1]s start --hooks-dir hooks\n  %[1]s start --hook-user nobody --hook-env PATH --hook-env KUBECONFIG\n"+
			"  %[1]s start --modules-dir modules --global-hooks-dir global-hooks --namespace addon-operator", called),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.start(cmd, f) },
	}
	text := func(target *string, flag, variable, fallback, usage string) {
		cmd.Flags().StringVar(target, flag, fromEnvironment(variable, fallback), usage+" ["+variable+"]")
	}
	truth := func(target *bool, flag, variable, usage string) {
		set, _ := strconv.ParseBool(os.Getenv(variable))
		cmd.Flags().BoolVar(target, flag, set || os.Getenv(variable) == "yes", usage+" ["+variable+"]")
	}
	text(&f.hooksDir, "hooks-dir", "SHELL_OPERATOR_HOOKS_DIR", "/hooks", "folder of the hooks")
	text(&f.tmpDir, "tmp-dir", "SHELL_OPERATOR_TMP_DIR", "", "folder for the files of runs")
	text(&f.address, "listen-address", "SHELL_OPERATOR_LISTEN_ADDRESS", "0.0.0.0", "address of /healthz, /readyz and /metrics")
	text(&f.port, "listen-port", "SHELL_OPERATOR_LISTEN_PORT", "9115", "port of /healthz, /readyz and /metrics")
	text(&f.prefix, "prometheus-metrics-prefix", "SHELL_OPERATOR_PROMETHEUS_METRICS_PREFIX", "shell_operator_", "beginning of the names of the operator's metrics")
	text(&f.socket, "debug-unix-socket", "DEBUG_UNIX_SOCKET", defaultSocket, "socket for the commands queue and hook")
	text(&f.logType, "log-type", "LOG_TYPE", "text", "format of the log: text, color or json")
	text(&f.logLevel, "log-level", "LOG_LEVEL", "info", "level of the log: debug, info, warn or error")
	truth(&f.noTime, "log-no-time", "LOG_NO_TIME", "log without times")
	truth(&f.hookJSON, "log-proxy-hook-json", "LOG_PROXY_HOOK_JSON", "take lines of hooks that are JSON objects for records of a log")
	truth(&f.keepFiles, "debug-keep-tmp-files", "DEBUG_KEEP_TMP_FILES", "keep the files of runs")
	f.client.add(cmd)
	f.webhooks.add(cmd)
	f.replicas.add(cmd, "SHELL_OPERATOR")
	f.modules.add(cmd, called)
	cmd.Flags().StringArrayVar(&f.hookEnv, "hook-env", nil, "name of a variable that hooks see; repeat it (default: all)")
	cmd.Flags().StringVar(&f.hookUser, "hook-user", "", "user who runs the hooks, as name or UID[:GID] (default: the user of the operator)")
	cmd.Flags().DurationVar(&f.hookTimeout, "hook-timeout", 0, "stop a run of a hook after this time (default: never)")
	addIgnored(cmd)
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(cmp.Or(otherNames[name], name))
	})
	return cmd
}

func (a commands) start(cmd *cobra.Command, f startFlags) error {
	lease := "shell-operator-leader-election"
	if f.modules.on() {
		lease = "addon-operator-leader-election"
		f.modules.settle(cmd, &f)
	}
	log, level, err := f.logger(a.Err)
	if err != nil {
		return err
	}
	credential, err := f.credential()
	if err != nil {
		return err
	}
	logIgnored(cmd, log)
	requests := engine.NewRequests(f.prefix)
	to, err := f.client.connect(requests.Wrap, log)
	if err != nil {
		return err
	}
	webhooks, err := f.webhooks.options()
	if err != nil {
		return err
	}
	runner := hook.Runner{Log: log, TempDir: f.tmpDir, KeepFiles: f.keepFiles, Timeout: f.hookTimeout, Pass: f.hookEnv, User: credential, JSON: f.hookJSON}
	var modules *lifecycle.Options
	if f.modules.on() {
		if modules, err = f.modules.options(to.config, webhooks.Namespace, log); err != nil {
			return err
		}
		modules.Monitor = to.monitor
	}
	return operator.Run(cmd.Context(), operator.Options{
		Options: engine.Options{
			HooksDir: f.hooksDir, Cluster: to.all, Patches: to.patches, Runner: runner, Log: log, MetricsPrefix: f.prefix, Requests: requests,
		},
		Listen:      net.JoinHostPort(f.address, f.port),
		Listening:   func(address string) { log.Info("listening", "address", address) },
		DebugSocket: f.socket,
		Webhooks:    webhooks,
		Modules:     modules,
		LogLevel:    level,
		Replicas:    f.replicas.options(lease, webhooks.Namespace, f.address),
	})
}

func (f *startFlags) logger(out io.Writer) (*slog.Logger, *slog.LevelVar, error) {
	level := &slog.LevelVar{}
	given, err := hook.ParseLevel(f.logLevel)
	if err != nil {
		return nil, nil, app.UsageError("--log-level %q is not one of debug, info, warn and error", f.logLevel)
	}
	level.Set(given)
	options := &slog.HandlerOptions{Level: level}
	if f.noTime {
		options.ReplaceAttr = func(groups []string, attr slog.Attr) slog.Attr {
			if len(groups) == 0 && attr.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return attr
		}
	}
	switch f.logType {
	case "json":
		return slog.New(slog.NewJSONHandler(out, options)), level, nil
	case "text", "color":
		return slog.New(slog.NewTextHandler(out, options)), level, nil
	}
	return nil, nil, app.UsageError("--log-type %q is not one of %s", f.logType, strings.Join([]string{"text", "color", "json"}, ", "))
}

// credential finds the user of --hook-user.
func (f *startFlags) credential() (*syscall.Credential, error) {
	if f.hookUser == "" {
		return nil, nil
	}
	uid, gid, both := strings.Cut(f.hookUser, ":")
	if found, err := user.Lookup(f.hookUser); err == nil {
		uid, gid = found.Uid, found.Gid
	} else if !both {
		gid = uid
	}
	ids := make([]uint32, 0, 2)
	for _, text := range []string{uid, gid} {
		id, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, app.UsageError("--hook-user %q is neither a user of this machine nor UID or UID:GID", f.hookUser)
		}
		ids = append(ids, uint32(id))
	}
	if os.Getuid() != 0 && int(ids[0]) != os.Getuid() {
		return nil, app.UsageError("--hook-user %q: only root can run hooks as another user", f.hookUser)
	}
	return &syscall.Credential{Uid: ids[0], Gid: ids[1]}, nil
}
