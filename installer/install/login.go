package install

import (
	"context"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/kubeadm"
	"github.com/sealift/sealift/installer/cluster/oidc"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/preflight"
	"github.com/sealift/sealift/spec"
)

// loginStep gives the cluster the Installer's kubernetes.oidc.
const loginStep = "cluster/login"

// login adds the step by which the cluster gets a login, or loses the one that it got.
func (p *planner) login() {
	o, err := p.readLogin()
	switch {
	case err != nil: // checkLogin reported it
		return
	case o != nil:
		p.addLogin("let people log in by kubernetes.oidc", o)
	case p.past.Began(loginStep):
		p.addLogin("let nobody log in by tokens any more", nil)
	}
}

func (p *planner) addLogin(title string, o *spec.OIDC) {
	p.add(lifecycle.Step{ID: loginStep, Phase: lifecycle.Install, Title: title, Timeout: shortTime, Inputs: lifecycle.Digest(o)},
		inCluster(func(_ *Install, ctx context.Context) (lifecycle.State, error) {
			client, err := cluster.Client(kubeadm.AdminKubeconfig)
			if err != nil {
				return nil, err
			}
			return nil, oidc.Apply(ctx, client, o)
		}))
}

// readLogin returns the Installer's kubernetes.oidc with the CAs that it names by files; nil if it has none.
func (c *contents) readLogin() (*spec.OIDC, error) {
	o, err := c.spec.OIDC()
	if err != nil {
		return nil, err
	}
	return oidc.WithCA(o)
}

// checkLogin refuses a login that the API servers would not take. A host that joins gets the cluster's.
func (j *job) checkLogin() error {
	if j.Joins() {
		return nil
	}
	o, err := j.readLogin()
	if err != nil || o == nil {
		return err
	}
	return oidc.Host{}.Check()
}

// writeLogin writes the file that the first API server reads when it starts.
func (i *Install) writeLogin() error {
	o, err := i.readLogin()
	if err != nil {
		return err
	}
	text, err := oidc.Encode(o)
	if err != nil {
		return err
	}
	_, err = oidc.Host{}.Write(text)
	return err
}

// loginChecks asks each issuer from a host that is a control plane, or becomes one. An issuer that is away keeps nobody else out, so that
// nothing of this refuses the install.
func (j *job) loginChecks() []preflight.Check {
	if !j.ControlPlane() {
		return nil
	}
	o, err := j.loginOfCluster()
	if err == nil && o == nil {
		return nil
	}
	return []preflight.Check{{Name: "login", Probe: func(ctx context.Context, r *preflight.Reporter) {
		if err != nil {
			r.Warnf("see why", "the issuers of kubernetes.oidc are not known: %v", err)
			return
		}
		for _, i := range o.Issuers {
			if problem := oidc.Probe(ctx, i); problem != nil {
				r.Warnf(problem.Hint+"; until then, people of this issuer cannot log in; certificates and other issuers work", "issuer %s: %v", i.URL, problem.Err)
				continue
			}
			r.Passf("issuer %s answers, and its certificate and clock are right", i.URL)
		}
	}}}
}

// loginOfCluster is the one that the API server of this host has to use.
func (j *job) loginOfCluster() (*spec.OIDC, error) {
	if j.Joins() {
		return oidc.Decode([]byte(j.options.Join.Cluster.Authentication))
	}
	return j.readLogin()
}
