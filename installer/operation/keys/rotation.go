// Package keys rotates the keys that encrypt Secrets, and turns encryption on in clusters without. Package encryption has the file
// with the keys.
package keys

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/encryption"
	"github.com/sealift/sealift/installer/host/speed"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation"
	"github.com/sealift/sealift/installer/operation/intent"
	"github.com/sealift/sealift/installer/operation/record"
	"github.com/sealift/sealift/internal/fips"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/internal/sha256hex"
	"github.com/sealift/sealift/kube"
)

// The IDs of the steps of a rotation.
const (
	readStep    = "encryption/read"
	writeStep   = "encryption/write"
	rewriteStep = "encryption/rewrite"
	LastStep    = "encryption/forget"
)

// How long a step may take. An API server checks its keys every minute; a restarted one needs longer.
const (
	spreadTime  = time.Hour
	rewriteTime = time.Hour
	useTime     = 10 * time.Minute
)

// Kind is a rotation of keys for Secrets. An agent takes the keys from the control plane that asks.
var Kind = operation.Kind{
	Name: record.Keys, Asks: intent.Encrypt, Roles: []intent.Role{intent.ControlPlane}, Journal: lifecycle.Rotating,
	Apply: func(ctx context.Context, h operation.Host, _ operation.Request) error {
		if h.Server == nil {
			return encryption.Host{}.Enable()
		}
		of, err := h.Cluster(ctx)
		if err != nil {
			return err
		}
		h.Step("take the keys for Secrets")
		return encryption.FetchKeys(of.Encryption)
	},
}

// params are stored in the cluster's record of a rotation.
type params struct {
	Key string `json:"key"` // name of the new one
	// Enables says that API servers start again to encrypt: one at a time.
	Enables bool `json:"enables,omitempty"`
}

// Servers are the API servers of a cluster.
type Servers interface {
	// Uses returns the sha256 of the file that an API server uses, in hex; "" if it has none, and starts again to use one.
	Uses(ctx context.Context, name string) (string, error)
	// Rewrite writes all Secrets again.
	Rewrite(ctx context.Context) error
	// Values calls see with each Secret as etcd stores it.
	Values(ctx context.Context, see func(key, value []byte) error) error
	// Remember has control planes that join later, and upgrades, encrypt Secrets, too.
	Remember(ctx context.Context) error
}

// Rotation gives a cluster a new key for Secrets, and removes the old ones. In a cluster without encryption, it turns that on.
// Whatever ends it, the same command resumes it on any control plane.
//
// At every moment each API server can read what any of them writes.
type Rotation struct {
	Enables bool     // Secrets were not encrypted before
	Key     string   // name of the new key
	Old     []string // names of the keys that are removed
	Resumes bool

	host    encryption.Host
	servers Servers
	nodes   operation.Nodes // the control planes among them take the file of this host
	run     *operation.Run
	site    *operation.Site
	*node.Session
	fresh encryption.Key // the new key, unless the file has it already
	pause time.Duration
}

// begin resumes an interrupted rotation, or begins one.
func (r *Rotation) begin(ctx context.Context, records operation.Records, own string, now time.Time) error {
	c, there, err := r.host.Read()
	if err != nil {
		return err
	}
	known, err := operation.Known(ctx, records, Kind.Name)
	if err != nil {
		return err
	}
	r.run = &operation.Run{Own: own, Known: known, Records: records, Nodes: users{r.nodes, r}}
	p := params{Enables: !there || c.PlainFirst}
	switch {
	case known != nil:
		if err := r.resume(*known, c, &p); err != nil {
			return err
		}
	case c.PlainFirst || len(c.Keys) > 1: // a restore has merged keys
		r.Key, r.Resumes = c.Newest().Name, true
	default:
		if err := r.makeKey(c); err != nil {
			return err
		}
	}
	r.Enables, p.Key = p.Enables, r.Key
	for _, k := range c.Keys {
		if k.Name != r.Key {
			r.Old = append(r.Old, k.Name)
		}
	}
	if r.run.Record.ID == "" {
		r.run.Record = record.Record{ID: r.Key + " " + now.UTC().Format(time.RFC3339Nano), Kind: Kind.Name, Began: now.UTC()}
	}
	r.run.Record.About = fmt.Sprintf("the cluster gets the new key %s for Secrets (begun by %s)", r.Key, own)
	r.run.Record.Next = "run 'sealift certs rotate-encryption' on a control plane"
	r.run.Record.Params, err = json.Marshal(p)
	r.stages()
	return err
}

// makeKey makes the next key of the cluster. In FIPS mode it refuses.
func (r *Rotation) makeKey(c encryption.Config) error {
	if err := fips.Secrets.Refuse(); err != nil {
		return err
	}
	r.fresh = encryption.NewKey(c)
	r.Key = r.fresh.Name
	return nil
}

// resume goes on with a rotation that the cluster knows of. A host whose file does not fit the stage begins with the first one again: an
// earlier leader may have been killed before it gave the key to anybody, or a restore has brought the file of another time.
func (r *Rotation) resume(known record.Record, c encryption.Config, p *params) error {
	var was params
	if err := known.Decode(&was); err != nil {
		return err
	}
	p.Enables = p.Enables || was.Enables
	has := slices.ContainsFunc(c.Keys, func(k encryption.Key) bool { return k.Name == was.Key })
	early := known.Stage == "" || known.Stage == readStep
	r.Resumes, r.Key = true, was.Key
	switch {
	case has && (early || known.Stage == writeStep || c.Keys[0].Name == was.Key && !c.PlainFirst):
		r.run.Resume(known)
	case !has && early: // no API server writes with it
		return r.makeKey(c)
	case !has:
		return fmt.Errorf("this control plane lacks the key %s, with which others encrypt: run the command on %s, or take this one out with 'sealift reset', and join it again", was.Key, known.Leader)
	}
	return nil
}

// stages are those of the run.
func (r *Rotation) stages() {
	forget := "check that etcd has no other key"
	if len(r.Old) > 0 {
		forget = "remove " + strings.Join(r.Old, ", ")
	}
	r.run.Stages = []operation.Stage{
		{ID: readStep, Title: "let every API server read with " + r.Key, Timeout: spreadTime, Before: r.read},
		{ID: writeStep, Title: "let every API server write with " + r.Key, Timeout: spreadTime, Before: r.write},
		{ID: rewriteStep, Title: "write all Secrets again", Timeout: rewriteTime, Before: r.servers.Rewrite},
		{ID: LastStep, Title: forget, Timeout: rewriteTime, Before: r.forget},
	}
}

// Plan returns the steps. Those that an interrupted rotation has finished are skipped when it runs.
func (r *Rotation) Plan() lifecycle.Plan { return r.run.Plan() }

// read gives the new key to every API server. None writes with it.
func (r *Rotation) read(ctx context.Context) error {
	c, there, err := r.host.Read()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(c.Keys, func(k encryption.Key) bool { return k.Name == r.Key }) {
		c.Keys, c.PlainFirst = append(c.Keys, r.fresh), c.PlainFirst || !there
		if err := r.host.Write(c); err != nil {
			return err
		}
	}
	if err := r.spread(ctx, readStep); err != nil {
		return err
	}
	return r.servers.Remember(ctx)
}

// write lets every API server write with the new key, once all of them can read with it, including those that have joined in the
// meantime.
func (r *Rotation) write(ctx context.Context) error {
	if err := r.spread(ctx, writeStep); err != nil {
		return err
	}
	c, _, err := r.host.Read()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(c.Keys, func(k encryption.Key) bool { return k.Name == r.Key })
	if at < 0 {
		return fmt.Errorf("%s lacks %s: it was changed by another process; run the command again", cluster.EncryptionFile, r.Key)
	}
	key := c.Keys[at]
	c.Keys, c.PlainFirst = slices.Insert(slices.Delete(c.Keys, at, at+1), 0, key), false
	if err := r.host.Write(c); err != nil {
		return err
	}
	return r.spread(ctx, writeStep)
}

// rewrites is how often Secrets are rewritten if etcd still has some of another key: a control plane may have joined in the
// meantime.
const rewrites = 3

// forget removes the other keys, once nothing in etcd needs them.
func (r *Rotation) forget(ctx context.Context) error {
	if err := r.spread(ctx, LastStep); err != nil {
		return err
	}
	for n := 0; ; n++ {
		left, err := r.left(ctx)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			break
		}
		if n == rewrites {
			return fmt.Errorf("etcd has %d Secrets that are not encrypted with %s, such as %s; write them again with 'kubectl replace', and run the command again", len(left), r.Key, left[0])
		}
		if err := r.servers.Rewrite(ctx); err != nil {
			return err
		}
	}
	c, _, err := r.host.Read()
	if err != nil {
		return err
	}
	c.Keys = slices.DeleteFunc(c.Keys, func(k encryption.Key) bool { return k.Name != r.Key })
	if err := r.host.Write(c); err != nil {
		return err
	}
	return r.spread(ctx, LastStep)
}

// left are the Secrets in etcd that are not encrypted with the new key.
func (r *Rotation) left(ctx context.Context) (names []string, err error) {
	prefix := "k8s:enc:secretbox:v1:" + r.Key + ":"
	err = r.servers.Values(ctx, func(key, value []byte) error {
		if !strings.HasPrefix(string(value), prefix) {
			names = append(names, strings.TrimPrefix(string(key), secretsPrefix))
		}
		return nil
	})
	return names, err
}

// secretsPrefix begins the keys of Secrets in etcd.
const secretsPrefix = "/registry/secrets/"

// spread gives this host's file to every control plane, and returns when all API servers use it. Those that have to start again
// do so one at a time.
func (r *Rotation) spread(ctx context.Context, stage string) error {
	atOnce := 0
	if r.Enables {
		atOnce = 1
	}
	return r.run.Round(ctx, operation.Stage{ID: stage, Nodes: operation.ControlPlanes, AtOnce: atOnce})
}

// users are the API servers that use the file of this host as soon as they were given it.
type users struct {
	operation.Nodes
	*Rotation
}

// Apply implements operation.Nodes.
func (u users) Apply(ctx context.Context, name string, request operation.Request) error {
	text, err := regularfile.ReadFile(u.host.Path(cluster.EncryptionFile))
	if err != nil {
		return err
	}
	digest := sha256hex.Of(text)
	if uses, err := u.servers.Uses(ctx, name); err == nil && uses == digest { // one that does not answer is asked again below
		return nil
	}
	if err := u.Nodes.Apply(ctx, name, request); err != nil {
		return fmt.Errorf("give the keys for Secrets to %s: %w", name, err)
	}
	return u.await(ctx, name, digest)
}

// await waits until an API server uses a file.
func (r *Rotation) await(ctx context.Context, name, digest string) error {
	ctx, cancel := context.WithTimeout(ctx, speed.Patience(useTime))
	defer cancel()
	err := kube.Poll(ctx, r.pause, func(ctx context.Context) error {
		uses, err := r.servers.Uses(ctx, name)
		if err == nil && uses != digest {
			err = kube.NotYet(errors.New("it uses other keys"))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("the API server of %s does not use its new keys for Secrets: %w; see /var/log/pods there", name, err)
	}
	return nil
}

// Options of a rotation. The zero value of a folder is its default.
type Options struct {
	node.Scope
}
