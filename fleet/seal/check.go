package seal

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/sealift/sealift/bundle/signature"
	"github.com/sealift/sealift/fleet/ocm"
	"github.com/sealift/sealift/internal/sha256hex"
)

// Verified is the condition of a ManifestWork, and of a ManagedCluster, that reports whether the agent accepts the hub's works.
const Verified = "Verified"

// ContinueAfter is the annotation of a ManagedCluster with which a hub restored from a backup continues: its value is the
// highest number that the cluster has seen.
const ContinueAfter = "fleet.sealift.dev/continue-after"

// Reason is the reason of condition Verified.
type Reason string

// Why a work is refused. Accepted is the reason of an accepted work.
const (
	Accepted     Reason = "SignatureVerified"
	Unsigned     Reason = "Unsigned"
	UntrustedKey Reason = "UntrustedKey"
	OtherCluster Reason = "OtherCluster"
	Changed      Reason = "Changed"      // the spec or the work differs from the signed one
	Older        Reason = "Older"        // a later one was accepted before: a replay, or a hub restored from a backup
	HubWentBack  Reason = "HubWentBack"  // a number was used again later: the hub was restored from a backup
	TooOld       Reason = "TooOld"       // signed too long ago
	ClocksDiffer Reason = "ClocksDiffer" // signed in the future
	NotDeleted   Reason = "NotDeleted"   // deleted although the hub signed that it is not; or the other way round
)

// Refusal explains why signed or unsigned content of the hub is refused.
type Refusal struct {
	Reason  Reason
	Message string
}

// Error implements error.
func (r *Refusal) Error() string { return "refused: " + r.Message }

func refuse(reason Reason, format string, args ...any) error {
	return &Refusal{reason, fmt.Sprintf(format, args...)}
}

// Mark records the last accepted seal of a work, on its cluster.
type Mark struct {
	Sequence int64     `json:"sequence"`
	Time     time.Time `json:"time"`
	Digest   string    `json:"digest"`
	// Gone means that the work is deleted. Its mark stays until its seals are too old, so that nobody can restore the work.
	Gone bool `json:"gone,omitempty"`
}

// Memory has the marks of a cluster by the names of works. A memory is for one key.
type Memory map[string]Mark

// ReadMemory reads the data of a ConfigMap with marks as JSON. Keys that begin with a capital letter are foreign.
func ReadMemory(data map[string]string) (Memory, error) {
	m := make(Memory, len(data))
	for name, text := range data {
		if name == "" || name[0] >= 'A' && name[0] <= 'Z' {
			continue
		}
		var mark Mark
		if err := json.Unmarshal([]byte(text), &mark); err != nil {
			return nil, fmt.Errorf("the record of work %s: %w", name, err)
		}
		m[name] = mark
	}
	return m, nil
}

// Highest returns the mark with the highest number.
func (m Memory) Highest() (highest Mark) {
	for _, mark := range m {
		if mark.Sequence > highest.Sequence {
			highest = mark
		}
	}
	return highest
}

// Forget drops the marks of deleted works whose seals are too old to be accepted, by the time of a newer seal: the clock of the cluster may
// be wrong. The mark with the highest number stays, which tells that the hub went back.
func (p Policy) Forget(m Memory, newer time.Time) {
	highest := m.Highest().Sequence
	maps.DeleteFunc(m, func(_ string, mark Mark) bool {
		return p.MaxAge > 0 && mark.Gone && mark.Sequence < highest && newer.Sub(mark.Time) > p.MaxAge+ClockSkew
	})
}

// ClockSkew is how far the clocks of hub and cluster may differ.
const ClockSkew = time.Hour

// Policy says which seals a cluster accepts.
type Policy struct {
	Cluster string
	Keys    []signature.PublicKey
	// MaxAge is the maximum age of the seal of a work that is new to the cluster. Zero means no limit.
	MaxAge time.Duration
}

// Life refuses a deleted work whose seal does not say so, and an existing one whose seal says that it is deleted.
func (s Seal) Life(deleted bool) error {
	switch {
	case deleted && !s.Deleted:
		return refuse(NotDeleted, "the work is deleted, and the hub has not signed that: see whether the hub runs. If it does not delete the work, somebody between it and this cluster does. Its objects stay")
	case !deleted && s.Deleted:
		return refuse(NotDeleted, "the hub signed with number %d that the work is deleted, and it is there: somebody between the hub and this cluster brought it back", s.Sequence)
	}
	return nil
}

// Origin returns the seal of a work and the key that signed it. It refuses a work that no key of the policy signed for this
// cluster with this content, and returns the content that was signed.
func (p Policy) Origin(name, annotation string, spec ocm.AgentSpec) (Seal, signature.PublicKey, ocm.AgentSpec, error) {
	fail := func(err error) (Seal, signature.PublicKey, ocm.AgentSpec, error) {
		return Seal{}, signature.PublicKey{}, ocm.AgentSpec{}, err
	}
	if annotation == "" {
		return fail(refuse(Unsigned, "the work has no signature; the hub signs all works, so see whether it runs. If it is a hub that signs none, join the cluster again with --unsigned"))
	}
	s, err := Read(annotation)
	if err != nil {
		return fail(refuse(Changed, "the signature cannot be read: %v", err))
	}
	key, trusted := s.SignedBy(p.Keys...)
	if !trusted {
		return fail(refuse(UntrustedKey, "the work is not signed with the key that was pinned when the cluster joined (%s); if the hub has a new key, join the cluster again", fingerprints(p.Keys)))
	}
	if s.Cluster != p.Cluster {
		return fail(refuse(OtherCluster, "the work was signed for cluster %s, and this is %s", s.Cluster, p.Cluster))
	}
	text, err := canonical(spec)
	if err != nil {
		return fail(refuse(Changed, "the content cannot be read: %v", err))
	}
	if s.Work != name || s.Digest != sha256hex.Of(text) {
		return fail(refuse(Changed, "the content is not what the hub signed with number %d", s.Sequence))
	}
	signed, err := parse(text)
	if err != nil {
		return fail(refuse(Changed, "the content cannot be read: %v", err))
	}
	return s, key, signed, nil
}

// Order refuses a seal that is not the next of its work, or that is too old. fresh means that the mark must be stored before
// anything is applied.
func (p Policy) Order(s Seal, m Memory, now time.Time) (mark Mark, fresh bool, err error) {
	mark = Mark{Sequence: s.Sequence, Time: s.Time, Digest: s.Digest, Gone: s.Deleted}
	had, known := m[s.Work]
	highest := m.Highest()
	later := s.Time.After(highest.Time)
	switch {
	case known && had.Gone == s.Deleted && had.Sequence == s.Sequence && had.Digest == s.Digest: // a removal may be begun
		return had, false, nil
	case s.Sequence <= highest.Sequence && later, known && had.Sequence == s.Sequence && had.Digest != s.Digest:
		return mark, false, refuse(HubWentBack, "the hub used number %d again on %s, and this cluster has seen number %d of %s: the hub was restored from a backup. If that is right, run on the hub: %s",
			s.Sequence, s.Time.Format(time.RFC3339), highest.Sequence, highest.Time.Format(time.RFC3339), p.wayOut(highest))
	case known && s.Sequence <= had.Sequence:
		return mark, false, refuse(Older, "number %d is older than number %d, which this cluster has accepted: somebody replays it, or the hub was restored from a backup. If it was restored, run on the hub: %s",
			s.Sequence, had.Sequence, p.wayOut(highest))
	case s.Time.After(now.Add(ClockSkew)):
		return mark, false, refuse(ClocksDiffer, "the work was signed at %s, which is more than %s ahead of the clock here: set the clocks of the hub and of this cluster", s.Time.Format(time.RFC3339), ClockSkew)
	case p.MaxAge > 0 && now.Sub(s.Time) > p.MaxAge:
		return mark, false, refuse(TooOld, "the work was signed at %s, more than %s ago; the hub signs it again by itself when it reads this", s.Time.Format(time.RFC3339), p.MaxAge)
	}
	return mark, true, nil
}

func (p Policy) wayOut(highest Mark) string {
	return fmt.Sprintf("kubectl annotate managedcluster %s --overwrite %s=%d", p.Cluster, ContinueAfter, highest.Sequence)
}

func fingerprints(keys []signature.PublicKey) string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Fingerprint()
	}
	return strings.Join(names, ", ")
}
