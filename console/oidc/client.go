package oidc

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/sealift/sealift/console/access"
	"github.com/sealift/sealift/spec"
)

// Cookie binds a login that has begun to a browser. It is sent when an issuer sends the person back, which a strict cookie would not be.
const Cookie = "__Host-sealift-oidc"

const (
	// FlowTime is how long a person may take at the issuer.
	FlowTime = 10 * time.Minute
	// maxFlows is the maximum number of logins that have begun.
	maxFlows = 2048
	// maxBusy is how many requests wait for an issuer at a time.
	maxBusy = 8
	// maxCode is the maximum length of a code, in bytes.
	maxCode = 8 << 10
)

// ErrUnavailable means that nobody can log in by the issuer now. Logins by tokens do not need it.
var ErrUnavailable = errors.New("the issuer cannot be used")

// Refused is the reason why a login by the issuer failed.
type Refused struct{ Reason string }

// Error implements error.
func (r Refused) Error() string { return r.Reason }

func refused(format string, args ...any) error { return Refused{fmt.Sprintf(format, args...)} }

// ErrNoFlow refuses a callback whose login did not begin in this browser. It does not say why.
var ErrNoFlow = refused("the login did not begin in this browser, it was used, or it is older than 10 minutes; begin again")

// Client logs people in. Its methods may be called from several goroutines.
type Client struct {
	Settings
	File string // with kubernetes.oidc of the cluster
	Now  func() time.Time

	mu    sync.Mutex
	known *provider
	flows map[[sha256.Size]byte]flow // by the hash of the browser's cookie
	busy  chan struct{}
}

// flow is a login that has begun.
type flow struct {
	provider               *provider
	state, nonce, verifier string
	began                  time.Time
}

// New returns a client. file has kubernetes.oidc of the cluster.
func New(s Settings, file string, now func() time.Time) *Client {
	return &Client{Settings: s, File: file, Now: now, flows: make(map[[sha256.Size]byte]flow), busy: make(chan struct{}, maxBusy)}
}

// IssuerURL returns the URL of the issuer, or the reason why logins by an issuer are impossible.
func (c *Client) IssuerURL() (string, error) {
	_, i, err := c.login(c.File)
	return i.URL, err
}

// provider returns the description of the issuer, which is at most a minute old.
func (c *Client) provider(ctx context.Context) (*provider, error) {
	_, i, err := c.login(c.File)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	c.mu.Lock()
	known := c.known
	c.mu.Unlock()
	if known != nil && known.fits(i) && c.Now().Sub(known.read).Abs() < refreshTime {
		return known, nil
	}
	found, err := c.discover(ctx, i)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %s", ErrUnavailable, i.URL, shown(err.Error()))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = found
	return found, nil
}

// fits reports whether a description is of an issuer, read with its CA.
func (p *provider) fits(i spec.Issuer) bool {
	return p.of.URL == i.URL && p.of.CACertificate == i.CACertificate
}

// wait waits for one of the few places at the issuer. Call what it returns to leave it.
func (c *Client) wait(ctx context.Context) (context.Context, func(), error) {
	ctx, cancel := context.WithTimeout(ctx, loginTime)
	select {
	case c.busy <- struct{}{}:
		return ctx, func() { <-c.busy; cancel() }, nil
	case <-ctx.Done():
		cancel()
		return nil, nil, fmt.Errorf("%w: it is too slow, and %d people wait for it", ErrUnavailable, maxBusy)
	}
}

// Begin begins a login. It returns the address at the issuer to which the browser goes, and the secret that the browser keeps in Cookie.
func (c *Client) Begin(ctx context.Context) (address, secret string, err error) {
	ctx, leave, err := c.wait(ctx)
	if err != nil {
		return "", "", err
	}
	defer leave()
	p, err := c.provider(ctx)
	if err != nil {
		return "", "", err
	}
	f := flow{provider: p, state: rand.Text(), nonce: rand.Text(), verifier: oauth2.GenerateVerifier(), began: c.Now()}
	secret = rand.Text()
	if !c.keep(secret, f) {
		return "", "", fmt.Errorf("%w: too many people are logging in", ErrUnavailable)
	}
	return p.config.AuthCodeURL(f.state, oidc.Nonce(f.nonce), oauth2.S256ChallengeOption(f.verifier)), secret, nil
}

// keep keeps a login that has begun, and drops those that are too old. It reports whether there is room.
func (c *Client) keep(secret string, f flow) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, old := range c.flows {
		if !c.lasts(old) {
			delete(c.flows, key)
		}
	}
	if len(c.flows) >= maxFlows {
		return false
	}
	c.flows[sha256.Sum256([]byte(secret))] = f
	return true
}

func (c *Client) lasts(f flow) bool { return c.Now().Sub(f.began).Abs() < FlowTime }

// take returns the login that began in the browser with a secret, and forgets it: nobody uses it twice. A state of another login leaves it
// as it is, because any site can send the browser here.
func (c *Client) take(secret, state string) (flow, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := sha256.Sum256([]byte(secret))
	f, ok := c.flows[key]
	if !ok || !access.SameToken(f.state, state) {
		return flow{}, false
	}
	delete(c.flows, key)
	return f, c.lasts(f)
}

// Finish ends a login with the answer that the browser brings from the issuer. secret is the browser's cookie. The error is ErrNoFlow,
// another Refused, or ErrUnavailable.
func (c *Client) Finish(ctx context.Context, secret string, answer url.Values) (access.Person, error) {
	f, ok := c.take(secret, answer.Get("state"))
	if !ok {
		return access.Person{}, ErrNoFlow
	}
	code, err := f.code(answer)
	if err != nil {
		return access.Person{}, err
	}
	ctx, leave, err := c.wait(ctx)
	if err != nil {
		return access.Person{}, err
	}
	defer leave()
	token, err := c.exchange(ctx, f.provider, code, f.verifier)
	if err != nil {
		return access.Person{}, err
	}
	if !access.SameToken(token.Nonce, f.nonce) {
		return access.Person{}, refused("the ID token is for another login: its nonce differs")
	}
	return c.person(token)
}

// code returns the code of an answer.
func (f flow) code(answer url.Values) (string, error) {
	switch by, given := answer.Get("iss"), answer.Has("iss"); {
	case (given || f.provider.namesItself) && by != f.provider.of.URL:
		return "", refused("the answer is of another issuer, %q", shown(by))
	case answer.Has("error"):
		return "", refused("the issuer says %s", shown(answer.Get("error")+" "+answer.Get("error_description")))
	case len(answer["code"]) != 1 || answer.Get("code") == "" || len(answer.Get("code")) > maxCode:
		return "", refused("the answer of the issuer has no code")
	}
	return answer.Get("code"), nil
}
