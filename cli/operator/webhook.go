package operator

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	admissionregistration "k8s.io/api/admissionregistration/v1"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/operator/webhook"
)

// podNamespace is where a Pod finds its namespace.
const podNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// webhookFlags are the settings of webhooks, by shell-operator's names.
type webhookFlags struct {
	namespace, configuration, policy string
	validating, conversion           endpointFlags
}

// endpointFlags are those that both servers have.
type endpointFlags struct {
	kind                                  string // the beginning of the flags
	service, cert, key, ca, address, port string
	fallbackCert, fallbackKey, fallbackCA string
	clientCAs                             []string
}

func (f *webhookFlags) add(cmd *cobra.Command) {
	text := func(target *string, flag, fallback, usage string) {
		variable := strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
		if flag == "namespace" {
			variable = "SHELL_OPERATOR_NAMESPACE"
		}
		cmd.Flags().StringVar(target, flag, fromEnvironment(variable, fallback), usage+" ["+variable+"]")
	}
	text(&f.namespace, "namespace", "", "namespace of the operator and of the Services of webhooks (default in a Pod: its own)")
	text(&f.configuration, "validating-webhook-configuration-name", "shell-operator-hooks", "beginning of the names of the webhook configurations")
	text(&f.policy, "validating-webhook-failure-policy", string(admissionregistration.Fail), "failure policy of webhooks that have none: Fail or Ignore")
	f.validating.add(cmd, text, "validating", "9680")
	f.conversion.add(cmd, text, "conversion", "9681")
}

func (e *endpointFlags) add(cmd *cobra.Command, text func(target *string, flag, fallback, usage string), kind, port string) {
	e.kind = kind + "-webhook"
	folder := "/" + kind + "-certs/"
	e.fallbackCert, e.fallbackKey, e.fallbackCA = folder+"tls.crt", folder+"tls.key", folder+"ca.crt"
	text(&e.service, e.kind+"-service-name", "shell-operator-"+kind+"-svc", "Service of "+kind+" webhooks")
	text(&e.cert, e.kind+"-server-cert", e.fallbackCert, "certificate of the server of "+kind+" webhooks; if it and its key are absent, an authority of our own issues one")
	text(&e.key, e.kind+"-server-key", e.fallbackKey, "key of the certificate in --"+e.kind+"-server-cert")
	text(&e.ca, e.kind+"-ca", e.fallbackCA, "CA by which the API server trusts --"+e.kind+"-server-cert")
	text(&e.address, e.kind+"-listen-address", "0.0.0.0", "address of "+kind+" webhooks")
	text(&e.port, e.kind+"-listen-port", port, "port of "+kind+" webhooks")
	variable := strings.ToUpper(strings.ReplaceAll(e.kind, "-", "_")) + "_CLIENT_CA"
	cmd.Flags().StringArrayVar(&e.clientCAs, e.kind+"-client-ca", strings.Fields(os.Getenv(variable)), "CA of clients; repeat it (default: clients need no certificate) ["+variable+"]")
}

func (f *webhookFlags) options() (o webhook.Options, err error) {
	o = webhook.Options{Namespace: f.namespace, ConfigurationName: f.configuration, FailurePolicy: admissionregistration.FailurePolicyType(f.policy)}
	if o.FailurePolicy != admissionregistration.Fail && o.FailurePolicy != admissionregistration.Ignore {
		return o, app.UsageError("--validating-webhook-failure-policy %q is neither Fail nor Ignore", f.policy)
	}
	if o.Namespace == "" {
		text, err := os.ReadFile(podNamespace)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return o, err
		}
		o.Namespace = strings.TrimSpace(string(text))
	}
	o.Admission, o.Conversion = f.validating.endpoint(), f.conversion.endpoint()
	return o, nil
}

func (e *endpointFlags) endpoint() webhook.Endpoint {
	out := webhook.Endpoint{
		Listen: net.JoinHostPort(e.address, e.port), Service: e.service,
		CertFile: e.cert, KeyFile: e.key, CAFile: e.ca, ClientCAFiles: e.clientCAs,
	}
	absent := func(file string) bool { _, err := os.Stat(file); return errors.Is(err, fs.ErrNotExist) }
	files := []string{e.cert, e.key}
	if slices.Equal(files, []string{e.fallbackCert, e.fallbackKey}) && absent(e.cert) && absent(e.key) {
		out.CertFile = "" // none was given
	}
	return out
}
