// Package keys rotates the keys that encrypt Secrets, and turns encryption on in clusters without. Package encryption has the file
// with the keys.
package keys

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/encryption"
	"github.com/sealift/sealift/installer/journal/lifecycle"
	"github.com/sealift/sealift/installer/journal/node"
	"github.com/sealift/sealift/installer/operation/exclusion"
	"github.com/sealift/sealift/internal/regularfile"
	"github.com/sealift/sealift/kube"
)

// The IDs of the steps of a rotation.
const (
	readStep    = "encryption/read"
	writeStep   = "encryption/write"
	rewriteStep = "encryption/rewrite"
	LastStep    = "encryption/forget"
)

// How long a step may take. An API server looks at its keys every minute; one that is started again needs longer.
const (
	spreadTime  = time.Hour
	rewriteTime = time.Hour
	useTime     = 10 * time.Minute
)

// Servers are the API servers of a cluster.
type Servers interface {
	// List returns the names of the control planes, this host's first.
	List(ctx context.Context) ([]string, error)
	// Give has a control plane take the file of this host. Its API server uses it soon after.
	Give(ctx context.Context, name string) error
	// Uses returns the sha256 of the file that an API server uses, in hex; "" if it has none, and starts again to use one.
	Uses(ctx context.Context, name string) (string, error)
	// Rewrite writes all Secrets again.
	Rewrite(ctx context.Context) error
	// Values calls see with each Secret as etcd stores it.
	Values(ctx context.Context, see func(key, value []byte) error) error
	// Note tells the cluster which new key is on its way, so that nothing begins that would harm the rotation; "" when it has ended.
	Note(ctx context.Context, key string) error
	// Remember has control planes that join later, and upgrades, encrypt Secrets, too.
	Remember(ctx context.Context) error
}

// Rotation gives a cluster a new key for Secrets, and removes the old ones. In a cluster without encryption, it turns that on.
// Whatever ends it, the same command resumes it on any control plane: how far it came is in the files.
//
// At every moment each API server can read what any of them writes.
type Rotation struct {
	Enables bool     // Secrets were not encrypted before
	Key     string   // name of the new key
	Old     []string // names of the keys that are removed
	Resumes bool

	host    encryption.Host
	on      exclusion.Host
	servers Servers
	cluster *kube.Cluster // has the Lease that only one holds who restarts API servers
	*node.Session
	fresh  encryption.Key // the new key, unless the file has it already
	inputs string         // of the steps: the new key, and when the rotation began
	pause  time.Duration
}

// separator parts the name of the new key from the time in the inputs of the steps.
const separator = " "

// begin resumes an interrupted rotation, or begins one.
func (r *Rotation) begin(ctx context.Context, records []lifecycle.Record, now time.Time) error {
	c, there, err := r.host.Read()
	if err != nil {
		return err
	}
	r.Enables = !there || c.PlainFirst
	inputs := interrupted(records)
	key, _, _ := strings.Cut(inputs, separator)
	begun := slices.ContainsFunc(c.Keys, func(k encryption.Key) bool { return k.Name == key })
	if begun && len(c.Keys) == 1 && !c.PlainFirst { // another control plane may have finished it, which this journal does not tell
		r.Key = key
		left, err := r.left(ctx)
		if err != nil {
			return fmt.Errorf("check whether the last rotation was finished: %w", err)
		}
		if begun = len(left) > 0; !begun {
			inputs = ""
		}
	}
	switch {
	case begun:
		r.Key, r.inputs, r.Resumes = key, inputs, true
	case c.PlainFirst || len(c.Keys) > 1: // another control plane led, or a restore has merged keys
		r.Key, r.Resumes = c.Newest().Name, true
	default:
		r.fresh = encryption.NewKey(c)
		r.Key = r.fresh.Name
	}
	if r.inputs == "" {
		r.inputs = r.Key + separator + now.UTC().Format(time.RFC3339Nano)
	}
	for _, k := range c.Keys {
		if k.Name != r.Key {
			r.Old = append(r.Old, k.Name)
		}
	}
	return nil
}

// interrupted returns the inputs of the last rotation that this host led, unless it was finished.
func interrupted(records []lifecycle.Record) (inputs string) {
	for _, rec := range records {
		if rec.Operation == lifecycle.Rotating {
			inputs = rec.Inputs
			if rec.Step == LastStep && rec.Outcome == lifecycle.Finished {
				inputs = ""
			}
		}
	}
	return inputs
}

// Plan returns the steps. Those that an interrupted rotation has finished are skipped when it runs.
func (r *Rotation) Plan() (plan lifecycle.Plan) {
	forget := "check that etcd has no other key"
	if len(r.Old) > 0 {
		forget = "remove " + strings.Join(r.Old, ", ")
	}
	for _, s := range []struct {
		id, title string
		timeout   time.Duration
		run       func(context.Context) error
	}{
		{readStep, "let every API server read with " + r.Key, spreadTime, r.read},
		{writeStep, "let every API server write with " + r.Key, spreadTime, r.write},
		{rewriteStep, "write all Secrets again", rewriteTime, r.servers.Rewrite},
		{LastStep, forget, rewriteTime, r.forget},
	} {
		plan = append(plan, lifecycle.Step{ID: s.id, Phase: lifecycle.Outro, Title: s.title, Timeout: s.timeout, Inputs: r.inputs,
			Run: func(ctx context.Context) (lifecycle.State, error) { return nil, s.run(ctx) }})
	}
	return plan
}

// read gives the new key to every API server. None writes with it.
func (r *Rotation) read(ctx context.Context) error {
	if err := r.servers.Note(ctx, r.Key); err != nil {
		return err
	}
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
	if err := r.spread(ctx); err != nil {
		return err
	}
	return r.servers.Remember(ctx)
}

// write lets every API server write with the new key, once all of them read with it: also those that have joined meanwhile.
func (r *Rotation) write(ctx context.Context) error {
	if err := r.spread(ctx); err != nil {
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
	return r.spread(ctx)
}

// rewrites is how often Secrets are written again if etcd still has some of another key: a control plane may have joined meanwhile.
const rewrites = 3

// forget removes the other keys, once nothing in etcd needs them.
func (r *Rotation) forget(ctx context.Context) error {
	if err := r.spread(ctx); err != nil {
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
	if err := r.spread(ctx); err != nil {
		return err
	}
	return r.servers.Note(ctx, "")
}

// left are the Secrets that etcd has and that are not encrypted with the new key.
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
func (r *Rotation) spread(ctx context.Context) error {
	text, err := regularfile.ReadFile(r.host.Path(cluster.EncryptionFile))
	if err != nil {
		return err
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(text))
	done := map[string]bool{}
	for {
		names, err := r.servers.List(ctx)
		if err != nil {
			return err
		}
		names = slices.DeleteFunc(names, func(name string) bool { return done[name] })
		if len(names) == 0 {
			return nil
		}
		for _, name := range names {
			uses, _ := r.servers.Uses(ctx, name) // one that does not answer is asked again below
			if uses == digest {
				done[name] = true
				continue
			}
			if err := r.servers.Give(ctx, name); err != nil {
				return fmt.Errorf("send the keys for Secrets to %s: %w", name, err)
			}
			if uses == "" {
				if err := r.await(ctx, name, digest); err != nil {
					return err
				}
			}
		}
		for _, name := range names {
			if err := r.await(ctx, name, digest); err != nil {
				return err
			}
			done[name] = true
		}
	}
}

// await waits until an API server uses a file.
func (r *Rotation) await(ctx context.Context, name, digest string) error {
	ctx, cancel := context.WithTimeout(ctx, useTime)
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

// Run rotates.
func (r *Rotation) run(ctx context.Context, observe func(lifecycle.Event)) error {
	_, err := lifecycle.Run(ctx, lifecycle.Rotating, r.Plan(), r.Journal, observe)
	return err
}

// Options of a rotation. The zero value of a folder is its default.
type Options struct {
	node.Scope
}
