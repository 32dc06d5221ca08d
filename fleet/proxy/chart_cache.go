package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/sealift/sealift/helm/release"
	"github.com/sealift/sealift/helm/source"
)

// Charts are cached for a while, so that a chart for 400 clusters is fetched once, and their number is limited, so that the
// hub's memory does not grow.
const (
	freshFor = time.Minute
	mostKept = 16
)

// chartCache keeps charts that were fetched a moment ago. Who may fetch one is part of its key.
type chartCache struct {
	group singleflight.Group
	mu    sync.Mutex
	kept  map[string]keptChart
}

type keptChart struct {
	chart release.Chart
	until time.Time
}

func newChartCache() *chartCache { return &chartCache{kept: make(map[string]keptChart)} }

func (s *chartCache) get(ctx context.Context, want source.Chart, access source.Access, whole bool) (release.Chart, error) {
	text, err := json.Marshal([]any{want, access, whole})
	if err != nil {
		return release.Chart{}, err
	}
	sum := sha256.Sum256(text)
	key := string(sum[:])
	if c, found := s.find(key); found {
		return c, nil
	}
	// another one may wait for the same chart, so that it is fetched even if this one no longer waits
	shared := context.WithoutCancel(ctx)
	fetched := s.group.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(shared, 5*time.Minute)
		defer cancel()
		return s.fetch(ctx, key, want, access, whole)
	})
	select {
	case <-ctx.Done():
		return release.Chart{}, context.Cause(ctx)
	case result := <-fetched:
		c, _ := result.Val.(release.Chart)
		return c, result.Err
	}
}

func (s *chartCache) fetch(ctx context.Context, key string, want source.Chart, access source.Access, whole bool) (release.Chart, error) {
	a, err := source.Fetch(ctx, want, access)
	if err != nil {
		return release.Chart{}, err
	}
	c, err := release.ReadArchive(a.Content)
	if err != nil {
		return c, err
	}
	if whole {
		if c, err = dependencies(ctx, c, access); err != nil {
			return c, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.kept) >= mostKept {
		oldest := ""
		for k, v := range s.kept {
			if oldest == "" || v.until.Before(s.kept[oldest].until) {
				oldest = k
			}
		}
		delete(s.kept, oldest)
	}
	s.kept[key] = keptChart{c, time.Now().Add(freshFor)}
	return c, nil
}

func (s *chartCache) find(key string) (release.Chart, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, found := s.kept[key]
	if found && time.Now().After(k.until) {
		delete(s.kept, key)
		found = false
	}
	return k.chart, found
}
