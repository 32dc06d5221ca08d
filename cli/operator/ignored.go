package operator

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"
)

// ignored are settings of upstream without effect here, so that command lines and environments need no change. flag is "" for
// an environment-only setting.
var ignored = []struct{ flag, variable, why string }{
	{"", "HELM_BIN_PATH", "Helm is part of the operator"},
	{"", "HELM3", "Helm is part of the operator"},
	{"shell-chroot-dir", "ADDON_OPERATOR_SHELL_CHROOT_DIR", "hooks run in the file system of the operator; --hook-user takes rights from them"},
	{"debug-http-addr", "DEBUG_HTTP_SERVER_ADDR", "snapshots can be Secrets, so that only the debug socket answers"},
	{"jq-library-path", "JQ_LIBRARY_PATH", "filters of hooks see no files"},
	{"admission-server-enabled", "ADDON_OPERATOR_ADMISSION_SERVER_ENABLED", "the webhooks of hooks are always served; see --validating-webhook-listen-port"},
	{"admission-server-listen-port", "ADDON_OPERATOR_ADMISSION_SERVER_LISTEN_PORT", "see --validating-webhook-listen-port"},
	{"admission-server-certs-dir", "ADDON_OPERATOR_ADMISSION_SERVER_CERTS_DIR", "see --validating-webhook-server-cert"},
	{"dedup-client-enabled", "DEDUP_CLIENT_ENABLED", "bindings on the same objects always share them"},
	{"dedup-client-snapshot-store", "DEDUP_CLIENT_SNAPSHOT_STORE", "bindings on the same objects always share them"},
	{"dedup-client-helm-resources-cache", "DEDUP_CLIENT_HELM_RESOURCES_CACHE", "objects of charts are looked up without a cache"},
	{"dedup-client-reconstruct-lru-size", "DEDUP_CLIENT_RECONSTRUCT_LRU_SIZE", "there is no such cache"},
	{"dedup-client-gc-interval", "DEDUP_CLIENT_GC_INTERVAL", "there is no such cache"},
	{"dedup-client-namespace", "DEDUP_CLIENT_NAMESPACES", "there is no such cache"},
	{"dedup-client-watch-gvk", "DEDUP_CLIENT_WATCH_GVKS", "there is no such cache"},
}

func addIgnored(cmd *cobra.Command) {
	for _, s := range ignored {
		if s.flag == "" {
			continue
		}
		cmd.Flags().String(s.flag, os.Getenv(s.variable), "has no effect: "+s.why+" ["+s.variable+"]")
		cmd.Flags().Lookup(s.flag).NoOptDefVal = "true" // some of them are without a value
		_ = cmd.Flags().MarkHidden(s.flag)
	}
}

// logIgnored names the settings that are set and have no effect.
func logIgnored(cmd *cobra.Command, log *slog.Logger) {
	for _, s := range ignored {
		if os.Getenv(s.variable) != "" || s.flag != "" && cmd.Flags().Changed(s.flag) {
			log.Info("a setting has no effect", "variable", s.variable, "flag", s.flag, "why", s.why)
		}
	}
}
