package pki

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/host/files"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/internal/poll"
)

// checkTime bounds one question to the API.
const checkTime = 15 * time.Second

// nodeName is the name that the kubelet's certificate has, "" without one.
func nodeName(entries []Entry) string {
	for _, e := range entries {
		if e.File != kubeadm.KubeletKubeconfig || e.cert == nil {
			continue
		}
		if name, ok := strings.CutPrefix(e.cert.Subject.CommonName, "system:node:"); ok {
			return name
		}
	}
	return ""
}

// prepareWorker finds what a host without the keys of the CAs can renew: a self-signed kubelet serving certificate, and, with a
// token, the kubelet's client certificate.
func (r *Renewal) prepareWorker(entries []Entry, now time.Time) error {
	r.worker = true
	var client *Entry
	for i, e := range entries {
		switch e.File {
		case kubeadm.KubeletKubeconfig:
			client = &entries[i]
		case kubeletServing:
			r.files = append(r.files, e.File)
		}
	}
	switch {
	case client == nil:
		return errors.New("this host is not a node of a cluster: it has no " + kubeadm.KubeletKubeconfig + "; run the command on a node")
	case r.node == "":
		return fmt.Errorf("%s lacks the name of this node: it %s; run 'sealift reset' and join again", client.File, client.Why())
	case client.Begin != nil:
		return fmt.Errorf("the certificate of this node's kubelet %s; if the clock is right, it was ahead when the kubelet renewed the certificate: run 'sealift reset' and join again", client.Why())
	case client.Ended(now) && r.options.Token == "":
		return fmt.Errorf("the certificate of this node's kubelet expired on %s; 'sealift token create --renew %s' on a control plane prints the command that gives it a new one", client.End.Format(time.DateOnly), r.node)
	case client.Ended(now):
		r.files = append(r.files, client.File)
	case r.options.Token != "": // an earlier run was interrupted after the kubelet had its certificate
		r.options.Token = ""
	case len(r.files) == 0:
		return errors.New("nothing to renew: the kubelet of this node renews its own certificates")
	}
	return nil
}

// workerPlan lets the kubelet create or request its certificates.
func (r *Renewal) workerPlan(step func(id, title string, timeout time.Duration, run func(context.Context) error) lifecycle.Step) lifecycle.Plan {
	var plan lifecycle.Plan
	if r.options.Token != "" {
		plan = append(plan, step(bootstrapStep, "let the kubelet ask with the token", shortTime, func(context.Context) error {
			return r.host.writeBootstrap(r.options.Token)
		}))
	}
	return append(plan,
		step(kubeletStep, "restart the kubelet", shortTime, r.restartKubelet),
		step(LastStep, "wait until this node is Ready", podTime, r.waitWorker))
}

// servingTime is how long a worker waits for the certificate with which its kubelet serves. A control plane approves it.
const servingTime = time.Minute

// waitWorker waits until the kubelet has valid certificates and the node is Ready, and removes the token.
func (r *Renewal) waitWorker(ctx context.Context) error {
	err := poll.Until(ctx, pollPause, nil, func(context.Context) (bool, error) { return r.host.clientValid(time.Now()), nil })
	if err != nil {
		return fmt.Errorf("the kubelet has not received a certificate from the cluster: %w; see 'journalctl --unit kubelet'; if the token was used before, make another with 'sealift token create --renew %s' on a control plane", err, r.node)
	}
	if err := files.Remove(r.host.Path(kubeadm.BootstrapKubeconfig)); err != nil {
		return err
	}
	if err := cluster.WaitNode(ctx, r.node, r.Log); err != nil {
		return err
	}
	return r.waitServing(ctx)
}

// waitServing waits for the kubelet's serving certificate if the cluster signs it. A node without a valid one works, except for logs
// and metrics of its pods.
func (r *Renewal) waitServing(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, speed.Patience(servingTime))
	defer cancel()
	err := poll.Until(bounded, pollPause, nil, func(context.Context) (bool, error) { return !r.host.servingEnded(time.Now()), nil })
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(r.Log, "%s is not renewed yet: the agent on the control planes approves what this kubelet asked for\n", kubeletRotated)
		err = nil
	}
	return err
}

// servingEnded reports whether the kubelet serves with an expired certificate of the cluster.
func (h host) servingEnded(now time.Time) bool {
	e := h.certificate(kubeletRotated)
	return e.cert != nil && !now.Before(e.cert.NotAfter)
}

// clientValid reports whether the kubelet has a certificate that is valid now.
func (h host) clientValid(now time.Time) bool {
	e := h.kubeconfig(kubeadm.KubeletKubeconfig)
	return e.Problem == "" && e.cert != nil && now.Before(e.cert.NotAfter)
}

// bootstrap is the kubelet's kubeconfig with a token instead of its certificate.
func (h host) bootstrap(token string) (*clientcmdapi.Config, error) {
	config, err := clientcmd.LoadFromFile(h.Path(kubeadm.KubeletKubeconfig))
	if err != nil {
		return nil, err
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil || config.Clusters[context.Cluster] == nil {
		return nil, fmt.Errorf("%s: its current context names no cluster", kubeadm.KubeletKubeconfig)
	}
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{context.AuthInfo: {Token: token}}
	return config, nil
}

func (h host) writeBootstrap(token string) error {
	config, err := h.bootstrap(token)
	if err != nil {
		return err
	}
	text, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return files.WriteMode(h.Path(kubeadm.BootstrapKubeconfig), 0o600, text)
}

// checkToken asks the API, before anything is changed, whether the token may request a certificate.
func (h host) checkToken(ctx context.Context, token string) error {
	config, err := h.bootstrap(token)
	if err != nil {
		return err
	}
	rest, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		return err
	}
	rest.Timeout, rest.Proxy = speed.Patience(checkTime), cluster.NoProxy
	client, err := clientset.NewForConfig(rest)
	if err != nil {
		return err
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Group: "certificates.k8s.io", Resource: "certificatesigningrequests", Verb: "create"},
	}}
	review, err = client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("use the token at the cluster's %s: %w; make another with 'sealift token create --renew NODE' on a control plane", rest.Host, err)
	}
	if !review.Status.Allowed {
		return errors.New("the token may not ask for a node's certificate; make another with 'sealift token create --renew NODE' on a control plane")
	}
	return nil
}
