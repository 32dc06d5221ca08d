package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/installer/cluster/access"
	"github.com/sealift/sealift/installer/cluster/controlplane"
	"github.com/sealift/sealift/installer/cluster/oidc"
	"github.com/sealift/sealift/installer/cluster/pki"
	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/trust"
	"github.com/sealift/sealift/spec"
)

// issuerKind is the kind of an issuer of kubernetes.oidc. It is in no file of this node that has an end.
const issuerKind pki.Kind = "login issuer"

// loginResult is the document of 'sealift kubeconfig --oidc'.
type loginResult struct {
	File   string `json:"file"`
	Issuer string `json:"issuer"`
	Plugin string `json:"plugin"` // of kubectl, which people need
}

// loginKubeconfig writes a kubeconfig for everybody who logs in at an issuer.
func (a commands) loginKubeconfig(ctx context.Context, o kubeconfigOptions) error {
	if len(o.groups) > 0 {
		return app.UsageError("--group is for --for: with --oidc, the issuer tells the groups of a person")
	}
	if _, err := os.Lstat(o.out); err == nil {
		return app.UsageError("%s exists and is not replaced: it may be the only copy of a key", o.out)
	}
	admin, err := controlplane.AsAdministrator()
	if err != nil {
		return err
	}
	login, _, err := oidc.Read(ctx, admin.Client)
	if err != nil {
		return err
	}
	at, err := chooseIssuer(login, o.issuer)
	if err != nil {
		return err
	}
	to, err := apiOf(ctx, admin)
	if err != nil {
		return err
	}
	text, err := access.Login(to, at)
	if err != nil {
		return err
	}
	if err := atomicfile.WriteMode(o.out, 0o644, text); err != nil {
		return err
	}
	return a.Print(o.format, loginResult{o.out, at.URL, "oidc-login"}, func() error {
		_, err := fmt.Fprintf(a.Out, "wrote %s, which logs people in at %s; each of them needs kubectl's plugin oidc-login (https://github.com/int128/kubelogin)\n", o.out, at.URL)
		return err
	})
}

// chooseIssuer returns the issuer with a URL, or the only one if url is "".
func chooseIssuer(login *spec.OIDC, url string) (spec.Issuer, error) {
	if login == nil {
		return spec.Issuer{}, errors.New("the cluster has no issuer; give its Installer kubernetes.oidc, and run 'sealift install' with it again")
	}
	var urls []string
	for _, i := range login.Issuers {
		if i.URL == url || url == "" && len(login.Issuers) == 1 {
			return i, nil
		}
		urls = append(urls, i.URL)
	}
	if url == "" {
		return spec.Issuer{}, app.UsageError("the cluster has several issuers; choose one with --issuer: %s", strings.Join(urls, ", "))
	}
	return spec.Issuer{}, app.UsageError("%s is not an issuer of the cluster, which has %s", url, strings.Join(urls, ", "))
}

// loginIssuers lists the issuers of the cluster, on a control plane whose API answers.
func (a commands) loginIssuers(ctx context.Context, now time.Time) []pki.Entry {
	admin, err := controlplane.AsAdministrator()
	if err != nil {
		return nil // not a control plane
	}
	ctx, stop := context.WithTimeout(ctx, listing)
	defer stop()
	login, _, err := oidc.Read(ctx, admin.Client)
	if err != nil {
		fmt.Fprintf(a.Err, "warning: the issuers of kubernetes.oidc are not listed: %v\n", err)
	}
	return issuerEntries(login, now)
}

func issuerEntries(login *spec.OIDC, now time.Time) (entries []pki.Entry) {
	if login == nil {
		return nil
	}
	var rights []string
	for _, b := range oidc.Bindings(login) {
		for _, group := range b.Groups {
			rights = append(rights, group+"="+b.Role)
		}
	}
	for _, i := range login.Issuers {
		e := pki.Entry{File: "ConfigMap kube-system/" + oidc.ConfigMap, Kind: issuerKind, Subject: strings.Join(rights, ","), Issuer: i.URL, UsedBy: i.Audiences}
		if end, ok := trust.End([]byte(i.CACertificate)); ok {
			days := int(end.Sub(now).Hours() / 24)
			e.End, e.Days = &end, &days
		}
		entries = append(entries, e)
	}
	return entries
}
