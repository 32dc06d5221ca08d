package release

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// grace is how long an operation that was ended may still write that it failed.
const grace = 10 * time.Second

// session is the environment of one operation. Helm knows no contexts, so they are in the transports: once the operation's
// context ends, every request fails, including running ones.
type session struct {
	cfg      *action.Configuration
	client   *kube.Client
	confined *confined // the chart of an installation or upgrade
	cancel   context.CancelFunc
}

// begin starts a session. Records of releases can still be written for a moment after ctx has ended.
func (c *Client) begin(ctx context.Context) (*session, error) {
	recording, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	s := &session{cancel: func() { stop(); cancel() }}
	records, err := kubernetes.NewForConfig(c.within(recording))
	if err != nil {
		s.cancel()
		return nil, fmt.Errorf("create a cluster client: %w", err)
	}
	handler := slog.DiscardHandler
	if c.log != nil {
		handler = c.log.Handler()
	}
	s.cfg = action.NewConfiguration(action.ConfigurationSetLogger(handler))
	g := getter{config: c.within(ctx), client: c}
	s.client = kube.New(g)
	s.client.Namespace = c.namespace
	s.client.SetLogger(handler)
	s.cfg.RESTClientGetter, s.cfg.KubeClient = g, s.client
	s.cfg.HookOutputFunc = func(_, _, _ string) io.Writer { return io.Discard }
	if c.configMaps {
		s.cfg.Releases = storage.Init(driver.NewConfigMaps(records.CoreV1().ConfigMaps(c.namespace)))
	} else {
		s.cfg.Releases = storage.Init(driver.NewSecrets(records.CoreV1().Secrets(c.namespace)))
	}
	s.cfg.Releases.SetLogger(handler)
	return s, nil
}

// getter hands a cluster to Helm.
type getter struct {
	config *rest.Config
	client *Client
}

func (g getter) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(g.config), nil }

func (g getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.client.discovery, nil
}

func (g getter) ToRESTMapper() (meta.RESTMapper, error) { return g.client.mapper, nil }

// ToRawKubeConfigLoader says only which namespace is the default.
func (g getter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	const one = "release"
	file := clientcmdapi.NewConfig()
	file.Contexts[one] = &clientcmdapi.Context{Namespace: g.client.namespace}
	file.CurrentContext = one
	return clientcmd.NewDefaultClientConfig(*file, &clientcmd.ConfigOverrides{})
}

// within returns a configuration whose requests end with ctx, or when the cluster does not answer.
func (c *Client) within(ctx context.Context) *rest.Config {
	bound := rest.CopyConfig(c.config)
	bound.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{ctx, c.answer, next} })
	return bound
}

type transport struct {
	ctx    context.Context
	answer time.Duration
	next   http.RoundTripper
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })
	late := func() bool { return false }
	if t.answer > 0 && !r.URL.Query().Has("watch") {
		late = time.AfterFunc(t.answer, func() { cancel(fmt.Errorf("the cluster has not answered for %s", t.answer)) }).Stop
	}
	end := sync.OnceFunc(func() { stop(); late(); cancel(nil) })
	response, err := t.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		end()
		return nil, err
	}
	response.Body = body{response.Body, end}
	return response, nil
}

// body cancels the request's context when it is closed.
type body struct {
	io.ReadCloser
	end func()
}

func (b body) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}
