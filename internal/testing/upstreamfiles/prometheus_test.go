package upstreamfiles

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealift/sealift/installer/hooks/hook"
	"github.com/sealift/sealift/installer/inspect/metrics"
	"github.com/sealift/sealift/internal/testing/short"
	"github.com/sealift/sealift/kube/render"
)

// noCluster is kubectl for a hook: the cluster has a storage class, if the file beside it says so, and nothing else.
const noCluster = `#!/bin/sh
case " $* " in
*" storageclasses "*) cat "$(dirname "$0")/classes" ;;
*" --ignore-not-found "*) ;;
*) exit 1 ;;
esac
`

const defaultClass = "local-path (default)   rancher.io/local-path   Delete   WaitForFirstConsumer   false   1d\n"

// prometheusHooks runs the hooks of the add-on with these options, and returns the folder that they apply, and what they said.
func prometheusHooks(t *testing.T, classes string, options hook.Variables) (dir, said string, err error) {
	t.Helper()
	rules, err := metrics.RulesFile()
	if err != nil {
		t.Fatal(err)
	}
	run := hooksRun{name: "prometheus", options: options, files: map[string]string{
		"bin/kubectl": noCluster, "bin/classes": classes, "bin/sealift": "#!/bin/sh\ncat \"$(dirname \"$0\")/rules\"\n", "bin/rules": string(rules),
		"bin/bcrypt": "#!/bin/sh\n[ $# = 0 ] && [ \"$(wc -c)\" = 32 ] && echo '$2a$10$abcdefghijklmnopqrstuv'\n", // of a password that is no argument
	}}
	return run.call(t)
}

// everyReceiver are options that change each object that an option can change.
func everyReceiver() hook.Variables {
	return hook.Variables{
		"PROMETHEUS_RECEIVERS": "https://hooks.example.org/a?b=c,mailto:ops@example.org,secret:pager", "PROMETHEUS_RECEIVERS_FROM": "alert-receivers",
		"PROMETHEUS_SMTP_SERVER": "mail.example.org:587", "PROMETHEUS_SMTP_FROM": "cluster@example.org", "PROMETHEUS_SMTP_USER": "cluster",
		"PROMETHEUS_EXTERNAL_URL": "https://prometheus.example.org:8443/", "PROMETHEUS_SERVICE_TYPE": "NodePort", "PROMETHEUS_STORAGE_CLASS_NAME": "fast",
		"PROMETHEUS_STORAGE_SIZE": "1Ti", "PROMETHEUS_RETENTION": "1y", "PROMETHEUS_METRICS_FOLDER": "/var/lib/prometheus/node-exporter",
	}
}

// TestPrometheusIsAppliedAndRemoved applies what the hooks make to an API server, again, and removes it. Pods of the namespace prometheus are
// as restricted as the namespace requires.
func TestPrometheusIsAppliedAndRemoved(t *testing.T) {
	short.Skip(t, "a kube-apiserver")
	for name, with := range map[string]struct {
		classes string
		options hook.Variables
	}{
		"by default": {defaultClass, nil}, "without storage": {"", nil}, "every option": {"", everyReceiver()},
	} {
		t.Run(name, func(t *testing.T) {
			dir, said, err := prometheusHooks(t, with.classes, with.options)
			if err != nil {
				t.Fatal(err)
			}
			if warned := strings.Contains(said, "no default storage class"); warned != (name == "without storage") {
				t.Errorf("the hooks said\n%s", said)
			}
			objects, err := render.Build(dir)
			if err != nil {
				t.Fatal(err)
			}
			row{}.checkApplied(t, objects)
			podsAreAdmitted(t, objects, 4)
		})
	}
}

// TestPrometheusKeepsItsVolumeWithoutAnswer has a cluster that does not say what it has.
func TestPrometheusKeepsItsVolumeWithoutAnswer(t *testing.T) {
	run := hooksRun{name: "prometheus", instead: "prometheus_storage", files: map[string]string{"bin/kubectl": "#!/bin/sh\necho refused >&2\nexit 1\n"}}
	if _, said, err := run.call(t); err == nil || !strings.HasSuffix(said, "refused\n") {
		t.Errorf("%v; said %q", err, said)
	}
}

// TestPrometheusOptionsAreFollowed looks at what options change.
func TestPrometheusOptionsAreFollowed(t *testing.T) {
	dir, _, err := prometheusHooks(t, defaultClass, everyReceiver())
	if err != nil {
		t.Fatal(err)
	}
	objects, err := render.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(document(t, objects))), " ")
	for _, want := range []string{
		"--storage.tsdb.retention.size=838860MB", "--storage.tsdb.retention.time=1y", "--web.external-url=https://prometheus.example.org:8443/",
		"path: /var/lib/prometheus/node-exporter", "secretName: alert-receivers", "storageClassName: fast", "type: NodePort",
		"names: prometheus.prometheus.svc prometheus.prometheus.svc.cluster.local alertmanager.prometheus.svc alertmanager.prometheus.svc.cluster.local localhost prometheus.example.org",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the objects lack %q", want)
		}
	}
	const want = `global:
  resolve_timeout: 5m
  smtp_smarthost: "mail.example.org:587"
  smtp_from: "cluster@example.org"
  smtp_auth_username: "cluster"
  smtp_auth_password_file: "/etc/alertmanager/receivers/smtp-password"
route:
  receiver: people
  group_by: [alertname]
  group_wait: 30s
  group_interval: 5m
  repeat_interval: 12h
receivers:
- name: people
  webhook_configs:
  - {url: "https://hooks.example.org/a?b=c", send_resolved: true}
  - {url_file: "/etc/alertmanager/receivers/pager", send_resolved: true}
  email_configs:
  - {to: "ops@example.org", send_resolved: true}
`
	got, err := os.ReadFile(filepath.Join(dir, "alertmanager.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("alertmanager.yml (-want +got)\n%s", diff)
	}
}

// TestPrometheusRefusesBadOptions has one option in each row. No message repeats the URL of a receiver.
func TestPrometheusRefusesBadOptions(t *testing.T) {
	for says, options := range map[string]hook.Variables{
		"prometheus.retention must be a time such as 15d":                                  {"PROMETHEUS_RETENTION": "long"},
		"prometheus.storageSize must be a size such as 20Gi":                               {"PROMETHEUS_STORAGE_SIZE": "20"},
		"prometheus.externalURL must be a URL":                                             {"PROMETHEUS_EXTERNAL_URL": `https://a/"`},
		"prometheus.metricsFolder must be the path of a folder":                            {"PROMETHEUS_METRICS_FOLDER": "textfile"},
		"prometheus.smtpServer must be HOST:PORT":                                          {"PROMETHEUS_SMTP_SERVER": "mail.example.org"},
		"prometheus.smtpUser needs prometheus.receiversFrom":                               {"PROMETHEUS_SMTP_USER": "me"},
		"neither a URL nor mailto:ADDRESS nor secret:KEY":                                  {"PROMETHEUS_RECEIVERS": "ftp://token@a"},
		"the URL of a webhook has characters that must be written as %XX":                  {"PROMETHEUS_RECEIVERS": `https://a/"token`},
		"prometheus.receivers has mailto: set prometheus.smtpServer and smtpFrom":          {"PROMETHEUS_RECEIVERS": "mailto:token@a"},
		"prometheus.receivers has secret: set prometheus.receiversFrom to the name of the": {"PROMETHEUS_RECEIVERS": "secret:token"},
	} {
		_, said, err := prometheusHooks(t, "", options)
		if err == nil || !strings.Contains(said, says) {
			t.Errorf("%v: %v; said %q, want %q", options, err, said, says)
		}
		if strings.Contains(said, "token") {
			t.Errorf("the message has the receiver: %s", said)
		}
	}
}
