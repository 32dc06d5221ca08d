package peer

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/sealift/sealift/installer/cluster/identity"
	"github.com/sealift/sealift/internal/poll"
)

// DirectHeader is in a request whose client does not want to be sent to another node: it was, and that failed.
const DirectHeader = "Sealift-Direct"

const (
	// minSize is the size of the smallest blob that nodes give to each other, in bytes. Smaller ones take less time than the search for a node.
	minSize = 1 << 20
	// patience bounds how long a client waits until another node has a blob. containerd gives up a pull after five minutes without a byte
	// (image_pull_progress_timeout).
	patience = 4 * time.Minute
	// transferTime is how long a node counts as receiving a blob from another node.
	transferTime = 10 * time.Minute
	// storeTime is how long a node that was sent all of a blob may take to store it. Disks may be slow.
	storeTime = 2 * time.Minute
	// muteTime is how long a node that does not answer counts as receiving a blob.
	muteTime = 30 * time.Second
	// awayTime is how long a node that does not answer, or that failed, gives nothing to others.
	awayTime = 10 * time.Minute
	// maxGiven is to how many nodes a node gives a blob.
	maxGiven = 2
	// blobTime is how long it is remembered which nodes have a blob, and maxBlobs of how many.
	blobTime = 24 * time.Hour
	maxBlobs = 512
	// lookPause is the pause between two questions for the same blob, and how old an answer may be when a client is sent to a node.
	lookPause = time.Second
)

// Spread sends each blob to one node, and sends the nodes after it to those that have the blob by then. A node gives a blob to one node at
// a time, and to two in all; of several nodes the one that gave it least is next. So the number of nodes that have it doubles with each round.
//
// A node is asked whether it has the blob, as the control plane, before a client is sent there. A client that asks again had no success: it
// gets everything from here for some time, and the other node gives nothing to anybody. While no node has the blob, clients wait for the nodes
// that are receiving it; if that takes long, they get it from here.
//
// What it knows is in memory, and may be lost. Its method Send may be called concurrently.
type Spread struct {
	Own       string // the name of this control plane
	Authority identity.Authority
	// Address returns host:port of the Server of a node, by the address of its client.
	Address func(node, client string) string
	// Node checks that the cluster has a node, which has shown a certificate that is valid since a time.
	Node func(ctx context.Context, node string, since time.Time) error
	Log  *slog.Logger

	client *http.Client // asks nodes
	mu     sync.Mutex
	blobs  map[string]*record   // by sha256
	away   map[string]time.Time // when nodes give blobs again
	direct map[string]time.Time // when nodes are sent elsewhere again
}

// record is what is known of one blob.
type record struct {
	sha256 string
	used   time.Time
	looked time.Time
	copies map[string]*replica // by node
}

// replica is a blob on a node, or on its way there.
type replica struct {
	node    string
	address string    // host:port of its Server
	from    string    // the node that sends it
	since   time.Time // when that began
	sent    time.Time // when all was sent; zero before, and if another node sends it
	has     bool      // as it says
	checked time.Time // when it said so
	proved  time.Time // since when the certificate is valid that it showed
	given   int       // how many nodes were sent to it
}

// Send answers the request of a node for a blob: by send, or by a redirect to another node. It has the form of the mirror's Spread.
func (s *Spread) Send(w http.ResponseWriter, r *http.Request, of digest.Digest, size int64, send func()) {
	party, node := identity.Client(r.TLS)
	if r.Method != http.MethodGet || party != identity.Worker || size < minSize {
		send()
		return
	}
	client, _, _ := net.SplitHostPort(r.RemoteAddr) // as net/http writes it
	to := &replica{node: node, address: s.Address(node, client)}
	from := s.source(r.Context(), of.Encoded(), to, r.Header.Get(DirectHeader) != "")
	if from != nil {
		text, err := permit{SHA256: of.Encoded(), To: node, From: from.node, End: time.Now().Add(permitTime)}.encode(s.Authority, s.Own)
		if err == nil {
			w.Header().Set("Location", "https://"+from.address+Path+of.Encoded()+"?"+permitKey+"="+text)
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
		s.Log.Warn("cannot send a node elsewhere for a blob", "node", node, "error", err)
	}
	send()
	s.finish(of.Encoded(), to, r.Context().Err())
}

// finish records that this control plane has sent a blob, or that its client went away.
func (s *Spread) finish(sha256 string, to *replica, failed error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.blobs[sha256]
	switch {
	case b == nil || b.copies[to.node] != to: // the node has asked again meanwhile
	case failed != nil:
		delete(b.copies, to.node)
	default:
		to.sent = time.Now()
	}
}

// source chooses the node from which a client gets a blob, and records that. Nil is this control plane.
func (s *Spread) source(ctx context.Context, sha256 string, to *replica, direct bool) (from *replica) {
	b := s.begin(sha256, to, direct)
	deadline := time.Now().Add(patience)
	err := poll.Until(ctx, lookPause, nil, func(ctx context.Context) (done bool, err error) {
		s.look(ctx, b)
		for {
			wait := false
			from, wait = s.choose(b, to, time.Now().Before(deadline))
			if from == nil || s.confirm(ctx, b, from, to) {
				return !wait, nil
			} // the next node
		}
	})
	if err != nil { // the client is gone
		return nil
	}
	return from
}

// begin forgets an earlier request of the same node for a blob. If that node was sent to another one for it, that failed.
func (s *Spread) begin(sha256 string, to *replica, direct bool) *record {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	b := s.record(sha256, now)
	if had := b.copies[to.node]; had != nil {
		if had.from != s.Own && (direct || !had.has) && now.Before(had.since.Add(transferTime)) {
			s.Log.Warn("a node had no success with a blob from another node", "node", to.node, "from", had.from, "sha256", sha256)
			s.away[had.from], s.direct[to.node] = now.Add(awayTime), now.Add(awayTime)
		}
		delete(b.copies, to.node)
	}
	if direct {
		s.direct[to.node] = now.Add(awayTime)
	}
	return b
}

// record returns what is known of a blob. What is old is forgotten.
func (s *Spread) record(sha256 string, now time.Time) *record {
	if s.blobs == nil {
		s.blobs, s.away, s.direct = make(map[string]*record), make(map[string]time.Time), make(map[string]time.Time)
	}
	if s.client == nil {
		s.client = s.newClient()
	}
	b := s.blobs[sha256]
	if b == nil || now.After(b.used.Add(blobTime)) {
		b = &record{sha256: sha256, copies: make(map[string]*replica)}
		s.forgetOldest()
		s.blobs[sha256] = b
	}
	b.used = now
	return b
}

// forgetOldest makes room for one more blob.
func (s *Spread) forgetOldest() {
	if len(s.blobs) < maxBlobs {
		return
	}
	oldest := ""
	for sha256, b := range s.blobs {
		if oldest == "" || b.used.Before(s.blobs[oldest].used) {
			oldest = sha256
		}
	}
	delete(s.blobs, oldest)
}

// choose assigns a node that has the blob, or this control plane, to a client. wait reports whether the client waits instead, which patient
// allows.
func (s *Spread) choose(b *record, to *replica, patient bool) (from *replica, wait bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	busy := make(map[string]bool)
	for _, c := range b.copies {
		if c.underway(now) && (!now.Before(s.away[c.node]) || now.Before(c.since.Add(muteTime))) {
			busy[c.from] = true
		}
	}
	to.from, to.since = s.Own, now
	if !now.Before(s.direct[to.node]) {
		pending := false
		for _, c := range b.copies {
			switch {
			case c.node == to.node, now.Before(s.away[c.node]), c.given == maxGiven:
			case c.has && !busy[c.node]:
				if from == nil || c.given < from.given {
					from = c
				}
			case c.has, c.underway(now):
				pending = true
			}
		}
		if from == nil && pending && patient {
			return nil, true
		}
	}
	if from != nil {
		from.given++
		to.from = from.node
	}
	b.copies[to.node] = to
	return from, false
}

// underway reports whether a node is receiving a blob.
func (c *replica) underway(now time.Time) bool {
	return !c.has && now.Before(c.since.Add(transferTime)) && (c.sent.IsZero() || now.Before(c.sent.Add(storeTime)))
}
