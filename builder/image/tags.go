package image

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// maxTags bounds the list of a repository's tags. A registry that never ends its list is refused.
const maxTags = 200_000

// tagsPerPage is the number of tags in one request. Registries may send fewer.
const tagsPerPage = 1000

// Tags lists the tags of an upstream repository, such as registry.k8s.io/pause, in the order of its registry.
func (s *Source) Tags(ctx context.Context, repository string) ([]string, error) {
	var tags []string
	err := s.options.Retry.Do(ctx, func(ctx context.Context) (err error) {
		tags, err = s.tags(ctx, repository)
		return err
	})
	if err == nil {
		return tags, nil
	}
	e := &Error{What: "repository", Ref: repository, Err: err}
	if place, _ := s.options.Mirrors.Repository(repository); place != repository {
		e.Asked = place
	}
	return nil, e
}

func (s *Source) tags(ctx context.Context, repository string) ([]string, error) {
	ref, err := ParseReference(repository)
	if err != nil {
		return nil, err
	}
	repo, err := s.repos.get(ctx, ref.Repository())
	if err != nil {
		return nil, err
	}
	puller, err := remote.NewPuller(append(repo.options(ctx), remote.WithPageSize(tagsPerPage))...)
	if err != nil {
		return nil, err
	}
	pages, err := puller.Lister(ctx, repo.Repository)
	if err != nil {
		return nil, err
	}
	var tags []string
	for empty := 0; pages.HasNext(); {
		page, err := pages.Next(ctx)
		if err != nil {
			return nil, err
		}
		tags = append(tags, page.Tags...)
		if len(page.Tags) == 0 {
			empty++
		}
		switch {
		case len(tags) > maxTags:
			return nil, fmt.Errorf("it lists more than %d tags", maxTags)
		case empty > 1:
			return nil, errors.New("its list of tags has pages without tags")
		}
	}
	return tags, nil
}
