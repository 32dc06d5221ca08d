package release

import (
	"context"
	"errors"
	"slices"
)

// History returns all revisions of a release that are kept, the oldest first. A release that does not exist has none.
func (c *Client) History(ctx context.Context, name string) ([]Release, error) {
	s, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.cancel()
	revisions, err := s.cfg.Releases.History(name)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fail(ctx, "read", name, err, nil)
	}
	var list []Release
	for _, r := range revisions {
		list = append(list, plain(r))
	}
	slices.SortFunc(list, func(a, b Release) int { return a.Revision - b.Revision })
	return list, nil
}
