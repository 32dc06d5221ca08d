package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sealift/sealift/store"
)

const (
	// countFor is how long the number of stored Installers is taken to be the same, but for those that this server has stored.
	countFor = time.Minute
	// sweepEvery is how often Installers that nobody uses are looked for.
	sweepEvery = time.Hour
	// refreshEvery is how old a used Installer gets in the store before it is stored again. Its age says when it was last used.
	refreshEvery = 24 * time.Hour
	// maxUsed is how many bytes the server takes to remember which Installers are in use.
	maxUsed = 1 << 20
	// sinceKey is an object that says since when the age of an Installer tells of its use.
	sinceKey = installersDir + "/.since"
)

// quota bounds the Installers that are stored without the token.
type quota struct {
	most    int // in all
	perDay  int // by one client
	clients *limits

	mu      sync.Mutex
	number  int
	counted time.Time
}

func newQuota(o Options) *quota {
	return &quota{most: o.MaxInstallers, perDay: o.MaxPerClient, clients: newLimits(float64(o.MaxPerClient)/(24*60*60), o.MaxPerClient)}
}

// room wants there to be room for one more Installer of a client.
func (s *Server) room(ctx context.Context, client string) error {
	q := s.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	if time.Since(q.counted) > countFor {
		infos, err := s.options.Packages.Store.List(ctx, installersDir+"/")
		if err != nil {
			return err
		}
		q.number, q.counted = 0, time.Now()
		for _, info := range infos {
			if withoutName(strings.TrimPrefix(info.Key, installersDir+"/")) {
				q.number++
			}
		}
	}
	if q.number >= q.most {
		return problem(http.StatusInsufficientStorage, fmt.Sprintf("this server has %d Installers and takes no more without its token; its operator can raise --max-installers", q.number))
	}
	if !q.clients.allow(client, 1) {
		return problem(http.StatusTooManyRequests, fmt.Sprintf("this address has stored %d new Installers within a day, as many as the server takes without its token; use one of them, or come back later", q.perDay))
	}
	q.number++
	return nil
}

// withoutName says whether a file in the folder of Installers is that of one without a name.
func withoutName(file string) bool {
	id, ok := strings.CutSuffix(file, ".yaml")
	return ok && idForm.MatchString(id)
}

// refresh stores a used Installer again once a day, so that it does not expire, and says whether it did. A store that takes
// nothing loses nothing.
func (s *Server) refresh(ctx context.Context, id string, o store.Object) bool {
	if s.options.Expire <= 0 || !idForm.MatchString(id) {
		return false
	}
	if _, isExpirer := s.store.(store.Expirer); !isExpirer {
		return false
	}
	if last, ok := s.used.get(id); ok && time.Since(last) < refreshEvery {
		return false
	}
	s.used.put(id, time.Now(), 256)
	text, err := io.ReadAll(io.NewSectionReader(o, 0, min(o.Size(), maxBody+1)))
	if err == nil && len(text) > maxBody {
		return false // not one that a server stored
	}
	if err == nil {
		_, err = s.store.Put(ctx, installerKey(id), store.Bytes(text))
	}
	if err != nil {
		s.log.Warn("that an Installer is used was not noted in the store", "installer", id, "error", err)
	}
	return err == nil
}

// sweeps removes Installers that nobody uses, until ctx ends.
func (s *Server) sweeps(ctx context.Context) {
	for {
		if err := s.sweep(ctx, time.Now()); err != nil && ctx.Err() == nil {
			s.log.Warn("Installers that nobody uses were not removed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(sweepEvery):
		}
	}
}

// sweep removes Installers without a name that were neither stored nor used for the time that Expire says. In a store that an
// earlier server has used, ages tell nothing at first: nothing is removed before that time has passed.
func (s *Server) sweep(ctx context.Context, now time.Time) error {
	expirer, ok := s.store.(store.Expirer)
	if !ok || s.options.Expire <= 0 {
		return nil
	}
	began, err := s.noteSince(ctx, now)
	if err != nil || now.Sub(began) < s.options.Expire {
		return err
	}
	removed, err := expirer.Expire(ctx, installersDir, now.Add(-s.options.Expire), withoutName)
	for _, name := range removed {
		s.log.Info("removed an Installer that nobody used", "installer", strings.TrimSuffix(name, ".yaml"), "for", s.options.Expire)
	}
	return err
}

// noteSince gives the time since when servers note in the store which Installers are used.
func (s *Server) noteSince(ctx context.Context, now time.Time) (time.Time, error) {
	_, err := s.store.Swap(ctx, sinceKey, []byte(now.UTC().Format(time.RFC3339)), "")
	if err == nil || errors.Is(err, store.ErrReadOnly) {
		return now, nil
	}
	if !errors.Is(err, store.ErrChanged) {
		return now, err
	}
	o, err := s.store.Get(ctx, sinceKey)
	if errors.Is(err, fs.ErrNotExist) {
		return now, nil
	}
	if err != nil {
		return now, err
	}
	defer o.Close()
	text := make([]byte, min(o.Size(), 64))
	if _, err := o.ReadAt(text, 0); err != nil && !errors.Is(err, io.EOF) {
		return now, err
	}
	began, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return now, fmt.Errorf("%s in the store is no time; remove it: %w", sinceKey, err)
	}
	return began, nil
}
