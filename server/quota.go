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

	"github.com/sealift/sealift/internal/poll"
	"github.com/sealift/sealift/store"
)

const (
	// countFor is how long a count of the stored Installers is used. Installers that this server stores are added to it.
	countFor = time.Minute
	// sweepEvery is the time between two sweeps of unused Installers.
	sweepEvery = time.Hour
	// refreshEvery is the age at which an Installer in use is stored again. The age of the object shows when the Installer
	// was last used.
	refreshEvery = 24 * time.Hour
	// maxUsed is the size of the cache of Installers in use, in bytes.
	maxUsed = 1 << 20
	// sinceKey is an object with the time from which on the age of an Installer shows its last use.
	sinceKey = installersDir + "/.since"
	// sweptKey is an object with the time of the last sweep.
	sweptKey = installersDir + "/.swept"
)

// quota limits the Installers that are stored without the token.
type quota struct {
	most    int // in total
	perDay  int // by one client
	clients *limits

	mu      sync.Mutex
	number  int
	counted time.Time
}

func newQuota(o Options) *quota {
	return &quota{most: o.MaxInstallers, perDay: o.MaxPerClient, clients: newLimits(float64(o.MaxPerClient)/(24*60*60), o.MaxPerClient)}
}

// room fails if a client may not store one more Installer.
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
		return problem(http.StatusInsufficientStorage, fmt.Sprintf("this server has %d Installers and stores no more without its token; its operator can raise --max-installers", q.number))
	}
	if !q.clients.allow(client, 1) {
		return problem(http.StatusTooManyRequests, fmt.Sprintf("this address has stored %d new Installers within a day, the limit without a token; use one of them, or try again later", q.perDay))
	}
	q.number++
	return nil
}

// withoutName reports whether a file in the folder of Installers belongs to an unnamed one.
func withoutName(file string) bool {
	id, ok := strings.CutSuffix(file, ".yaml")
	return ok && idForm.MatchString(id)
}

// refresh stores an Installer in use again once a day, so that it does not expire. It returns whether it did. On a
// read-only store it does nothing.
func (s *Server) refresh(ctx context.Context, id string, o store.Object) bool {
	if s.options.Expire <= 0 || !idForm.MatchString(id) {
		return false
	}
	if _, isExpirer := store.As[store.Expirer](s.store); !isExpirer {
		return false
	}
	if last, ok := s.used.get(id); ok && time.Since(last) < refreshEvery {
		return false
	}
	s.used.put(id, time.Now(), 256)
	text, err := io.ReadAll(io.NewSectionReader(o, 0, min(o.Size(), maxBody+1)))
	if err == nil && len(text) > maxBody {
		return false // a server did not store it
	}
	if err == nil {
		_, err = s.store.Put(ctx, installerKey(id), store.Bytes(text))
	}
	if err != nil {
		s.log.Warn("the use of an Installer was not recorded in the store", "installer", id, "error", err)
	}
	return err == nil
}

// sweeps removes unused Installers until ctx ends.
func (s *Server) sweeps(ctx context.Context) {
	poll.Repeat(ctx, func(ctx context.Context) time.Duration {
		if err := s.sweep(ctx, time.Now()); err != nil && ctx.Err() == nil {
			s.log.Warn("unused Installers were not removed", "error", err)
		}
		return sweepEvery
	})
}

// sweep removes unnamed Installers that were neither stored nor used for the time of Expire. In a store of an older server
// the ages mean nothing, so nothing is removed until Expire has passed since the first start, or since sweeps began again.
func (s *Server) sweep(ctx context.Context, now time.Time) error {
	expirer, ok := store.As[store.Expirer](s.store)
	if !ok || s.options.Expire <= 0 {
		return nil
	}
	began, err := s.noteSince(ctx, now)
	if err == nil {
		began, err = s.noteSwept(ctx, began, now)
	}
	if err != nil || now.Sub(began) < s.options.Expire {
		return err
	}
	removed, err := expirer.Expire(ctx, installersDir, now.Add(-s.options.Expire), withoutName)
	for _, name := range removed {
		s.log.Info("removed an unused Installer", "installer", strings.TrimSuffix(name, ".yaml"), "for", s.options.Expire)
	}
	return err
}

// noteSwept records a sweep, and returns the time since when ages count. They start again after a time without sweeps, in which nobody could
// use an Installer: no server ran, or its clock was set ahead. So they do when the clock was set back.
func (s *Server) noteSwept(ctx context.Context, began, now time.Time) (time.Time, error) {
	last, err := s.timeIn(ctx, sweptKey)
	if errors.Is(err, fs.ErrNotExist) {
		last, err = now, nil
	}
	if err != nil {
		return began, err
	}
	text := store.Bytes([]byte(now.UTC().Format(time.RFC3339)))
	if gap := now.Sub(last); gap > s.options.Expire/2 || gap < -s.options.Expire/2 || began.Sub(now) > time.Hour {
		s.log.Warn("the last sweep of unused Installers was long ago, or the clock was set; none is removed until they are unused for the whole time again",
			"last", last.UTC().Format(time.RFC3339), "clock", now.UTC().Format(time.RFC3339), "expire", s.options.Expire)
		if _, err := s.store.Put(ctx, sinceKey, text); err != nil {
			return began, err
		}
		began = now
	}
	if _, err = s.store.Put(ctx, sweptKey, text); errors.Is(err, store.ErrReadOnly) {
		err = nil
	}
	return began, err
}

// noteSince returns the time since when servers record the use of Installers in the store.
func (s *Server) noteSince(ctx context.Context, now time.Time) (time.Time, error) {
	_, err := s.store.Swap(ctx, sinceKey, []byte(now.UTC().Format(time.RFC3339)), "")
	if err == nil || errors.Is(err, store.ErrReadOnly) {
		return now, nil
	}
	if !errors.Is(err, store.ErrChanged) {
		return now, err
	}
	began, err := s.timeIn(ctx, sinceKey)
	if errors.Is(err, fs.ErrNotExist) {
		return now, nil
	}
	return began, err
}

// timeIn reads an object that is a time.
func (s *Server) timeIn(ctx context.Context, key string) (time.Time, error) {
	o, err := s.store.Get(ctx, key)
	if err != nil {
		return time.Time{}, err
	}
	defer o.Close()
	text := make([]byte, min(o.Size(), 64))
	if _, err := o.ReadAt(text, 0); err != nil && !errors.Is(err, io.EOF) {
		return time.Time{}, err
	}
	t, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return t, fmt.Errorf("%s in the store is not a time; remove it: %w", key, err)
	}
	return t, nil
}
