package operator

import (
	"cmp"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/time/rate"
	"k8s.io/client-go/rest"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/cli/kubeconfig"
	"github.com/sealift/sealift/kube"
)

// clientFlags configure how the operator reaches the API server, and its request limits. Without limits it is the API server
// that shares its time out fairly.
type clientFlags struct {
	kubeconfig, context, server string
	logged                      bool
	timeout                     string // of requests for object patches
	all, patches, monitor       limitFlags
}

// limitFlags are a limit by the names of upstream: texts, because not to set them is another thing than zero.
type limitFlags struct {
	flag       string // its beginning, such as kube-client
	qps, burst string
}

// Upstream's default for the other half of a limit.
const (
	defaultQPS   = 5
	defaultBurst = 10
)

func (f *clientFlags) add(cmd *cobra.Command) {
	text := func(target *string, flag, variable, usage string) {
		cmd.Flags().StringVar(target, flag, os.Getenv(variable), usage+" ["+variable+"]")
	}
	text(&f.kubeconfig, "kube-config", "KUBE_CONFIG", "kubeconfig file")
	text(&f.context, "kube-context", "KUBE_CONTEXT", "context of the kubeconfig")
	text(&f.server, "kube-server", "KUBE_SERVER", "address of the API server, in place of that of the kubeconfig or of the Pod")
	for _, l := range []struct {
		*limitFlags
		flag, prefix, whose string
	}{
		{&f.all, "kube-client", "KUBE_CLIENT", "of the operator"},
		{&f.patches, "object-patcher-kube-client", "OBJECT_PATCHER_KUBE_CLIENT", "for object patches of hooks"},
		{&f.monitor, "helm-monitor-kube-client", "HELM_MONITOR_KUBE_CLIENT", "that look for absent objects of charts"},
	} {
		l.limitFlags.flag = l.flag
		text(&l.qps, l.flag+"-qps", l.prefix+"_QPS", "requests per second "+l.whose+" (default: no limit)")
		text(&l.burst, l.flag+"-burst", l.prefix+"_BURST", "requests at once that --"+l.flag+"-qps does not slow down")
	}
	text(&f.timeout, "object-patcher-kube-client-timeout", "OBJECT_PATCHER_KUBE_CLIENT_TIMEOUT", "bound of a request for object patches, such as 10s")
	logged, _ := strconv.ParseBool(os.Getenv("DEBUG_KUBERNETES_API"))
	cmd.Flags().BoolVar(&f.logged, "debug-kubernetes-api", logged, "log every request to the API server at level debug [DEBUG_KUBERNETES_API]")
}

// clients are the ways to the cluster. The limits for patches and for object queries default to the general one.
type clients struct {
	config                *rest.Config // for Helm
	all, patches, monitor *kube.Cluster
}

// connect makes the clients. wrap goes around all their requests.
func (f *clientFlags) connect(wrap func(http.RoundTripper) http.RoundTripper, log *slog.Logger) (c clients, err error) {
	base, err := kubeconfig.InPodOr(f.kubeconfig, f.context, f.server)
	if err != nil {
		return c, err
	}
	base.QPS = -1 // no hidden limit of client-go: ours are in the transports
	base.Wrap(wrap)
	if f.logged {
		base.Wrap(func(next http.RoundTripper) http.RoundTripper { return loggedTransport{next, log} })
	}
	if c.config, err = f.all.apply(base); err != nil {
		return c, err
	}
	if c.all, err = kube.Connect(c.config, log); err != nil {
		return c, err
	}
	if c.monitor, err = f.monitor.connect(base, 0, c.all, log); err != nil {
		return c, err
	}
	timeout, err := time.ParseDuration(cmp.Or(f.timeout, "0s"))
	if err != nil || timeout < 0 {
		return c, app.UsageError("--object-patcher-kube-client-timeout %q is not a duration such as 10s", f.timeout)
	}
	c.patches, err = f.patches.connect(base, timeout, c.all, log)
	return c, err
}

// connect returns a client with its own limit or timeout, or the shared one.
func (f *limitFlags) connect(base *rest.Config, timeout time.Duration, all *kube.Cluster, log *slog.Logger) (*kube.Cluster, error) {
	if f.qps == "" && f.burst == "" && timeout == 0 {
		return all, nil
	}
	config, err := f.apply(base)
	if err != nil {
		return nil, err
	}
	config.Timeout = timeout
	return kube.Connect(config, log)
}

// apply returns a configuration with the limit.
func (f *limitFlags) apply(base *rest.Config) (*rest.Config, error) {
	config := rest.CopyConfig(base)
	if f.qps == "" && f.burst == "" {
		return config, nil
	}
	qps, burst := float64(defaultQPS), defaultBurst
	var err error
	if f.qps != "" {
		if qps, err = strconv.ParseFloat(f.qps, 64); err != nil || !(qps > 0) {
			return nil, app.UsageError("--%s-qps %q is not a number above 0", f.flag, f.qps)
		}
	}
	if f.burst != "" {
		if burst, err = strconv.Atoi(f.burst); err != nil || burst < 1 {
			return nil, app.UsageError("--%s-burst %q is not a whole number above 0", f.flag, f.burst)
		}
	}
	limiter := rate.NewLimiter(rate.Limit(qps), burst) // one for all transports that are made of the configuration
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return limitedTransport{next, limiter} })
	return config, nil
}

// limitedTransport waits before a request until the limit allows it.
type limitedTransport struct {
	next    http.RoundTripper
	limiter *rate.Limiter
}

func (t limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.limiter.Wait(r.Context()); err != nil {
		return nil, err
	}
	return t.next.RoundTrip(r)
}

// loggedTransport logs requests, without their content.
type loggedTransport struct {
	next http.RoundTripper
	log  *slog.Logger
}

func (t loggedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	begin := time.Now()
	response, err := t.next.RoundTrip(r)
	status := 0
	if response != nil {
		status = response.StatusCode
	}
	t.log.DebugContext(r.Context(), "request to the API server", "method", r.Method, "path", r.URL.Path, "status", status,
		"took", time.Since(begin).Round(time.Millisecond).String(), "error", err)
	return response, err
}
