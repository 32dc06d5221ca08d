package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/sealift/sealift/bundle/ocilayout"
	"github.com/sealift/sealift/internal/diag"
)

// Stale lists what earlier pushes below the prefix have brought, by their own record, and what this archive does not have. A tag that
// somebody else has pushed, or has pushed again since, is not listed. Attachments are listed with what they are attached to. It changes
// nothing.
func (p *Push) Stale(ctx context.Context) ([]Image, error) {
	stale, _, err := p.stale(ctx)
	var all []Image
	p.shown = make(map[string]string)
	for _, e := range stale {
		p.shown[e.key()] = e.Digest
		all = append(all, p.row(e, Stale, ""))
	}
	return all, err
}

func (p *Push) row(e entry, state, note string) Image {
	separator := ":"
	if e.Name == e.Digest {
		separator = "@"
	}
	return Image{Kind: e.Kind, Ref: e.Repository + separator + e.Name, Target: p.options.Target.repository(e.Repository) + separator + e.Name,
		Digest: e.Digest, State: state, Note: note, Subject: e.Subject}
}

// stale returns the entries that may go, with the digests that the registry has, by repositories, attachments first. lost are the keys of entries that no
// longer say what the registry has.
func (p *Push) stale(ctx context.Context) (list []entry, lost []string, err error) {
	all, err := p.readPushed(ctx)
	if hides(err) {
		p.options.Say("nothing of earlier pushes is removed: the registry has no record of them yet, or these credentials may not read it")
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, i := range p.images {
		delete(all, entry{Repository: i.repository, Name: i.target()}.key())
	}
	going := make(map[string]bool)
	for key, e := range all {
		repo, err := p.open(p.options.Target.path(e.Repository))
		if err != nil {
			return nil, nil, err
		}
		there, err := p.resolve(ctx, repo, e.Name)
		if err != nil {
			return nil, nil, err
		}
		if there == "" || there != e.Digest && there != e.Reduced {
			delete(all, key)
			lost = append(lost, key)
			continue
		}
		going[e.Repository+" "+e.Digest] = true
		e.Digest = there
		all[key] = e
	}
	for _, e := range all {
		if e.Kind != KindAttachment || going[e.Repository+" "+e.Subject] {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b entry) int {
		rank := map[bool]int{true: 0, false: 1}
		return cmp.Or(cmp.Compare(a.Repository, b.Repository), rank[a.Kind == KindAttachment]-rank[b.Kind == KindAttachment], cmp.Compare(a.key(), b.key()))
	})
	return list, lost, nil
}

// resolve returns the digest that a tag leads to, or a digest that is there; "" for none.
func (p *Push) resolve(ctx context.Context, repo *remote.Repository, name string) (found string, err error) {
	err = p.options.retry(ctx, func(ctx context.Context) error {
		d, err := repo.Resolve(ctx, name)
		if errors.Is(err, errdef.ErrNotFound) {
			return nil
		}
		found = d.Digest.String()
		return err
	})
	if err != nil {
		return "", fmt.Errorf("ask for %s in %s: %w", name, repo.Reference.Repository, err)
	}
	return found, nil
}

// Prune removes what Stale has listed, and takes it out of the record. What got stale since then stays. It returns what it did, also with an
// error. Run it after Stale and Run.
func (p *Push) Prune(ctx context.Context) (done []Image, err error) {
	stale, lost, err := p.stale(ctx)
	stale = slices.DeleteFunc(stale, func(e entry) bool { return p.shown[e.key()] != e.Digest })
	if err != nil || len(stale)+len(lost) == 0 {
		return nil, err
	}
	record, err := p.readPushed(ctx)
	if err != nil {
		return nil, err
	}
	before := maps.Clone(record)
	for _, key := range lost { // what somebody brings under this name later is not a push's
		delete(record, key)
	}
	for len(stale) > 0 && err == nil {
		n := slices.IndexFunc(stale, func(e entry) bool { return e.Repository != stale[0].Repository })
		if n < 0 {
			n = len(stale)
		}
		var some []Image
		some, err = p.pruneRepository(ctx, stale[:n], record)
		done, stale = append(done, some...), stale[n:]
	}
	return done, errors.Join(err, p.forget(context.WithoutCancel(ctx), before, record))
}

// forget takes out of the record what before has and after lacks. What other pushes have written meanwhile stays.
func (p *Push) forget(ctx context.Context, before, after pushed) error {
	now, err := p.readPushed(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(now, func(key string, e entry) bool {
		_, kept := after[key]
		return !kept && before[key] == e
	})
	return p.writePushed(ctx, now)
}

// pruneRepository removes the entries of one repository.
func (p *Push) pruneRepository(ctx context.Context, stale []entry, record pushed) (done []Image, err error) {
	repo, err := p.open(p.options.Target.path(stale[0].Repository))
	if err != nil {
		return nil, err
	}
	needed, err := p.needed(ctx, repo, stale, record)
	if err != nil {
		return nil, err
	}
	stale, kept := withoutAttached(stale, needed)
	for _, e := range kept {
		done = append(done, p.row(e, Kept, "what it is attached to stays"))
	}
	going := make(map[string]bool)
	for _, e := range stale {
		going[e.Digest] = true
	}
	for progress := true; progress && len(stale) > 0; { // a manifest may go once an index that lists it has gone
		progress = false
		var refused []entry
		var rows []Image
		for _, e := range stale {
			row, again, err := p.pruneEntry(ctx, repo, e, needed[e.Digest], going)
			switch {
			case err != nil:
				return append(done, rows...), err
			case again:
				refused, rows = append(refused, e), append(rows, row)
				continue
			case row.State == Removed:
				progress = true
				delete(record, e.key())
				p.options.Say("removed " + row.Target)
			}
			done = append(done, row)
		}
		if stale = refused; !progress {
			done = append(done, rows...)
		}
	}
	return done, nil
}

// pruneEntry removes an entry, or only its tag if its manifest is needed. again reports that the registry refused it for a reason that may
// pass with others.
func (p *Push) pruneEntry(ctx context.Context, repo *remote.Repository, e entry, needed bool, going map[string]bool) (row Image, again bool, err error) {
	now, err := p.resolve(ctx, repo, e.Name)
	if err != nil {
		return row, false, err
	}
	if now != e.Digest {
		return p.row(e, Kept, "somebody else has pushed it again"), false, nil
	}
	untagged, gone, why := false, false, ""
	if e.Name != e.Digest {
		if untagged, why, err = p.remove(ctx, repo, e.Name); err != nil {
			return row, false, err
		}
	}
	if !needed {
		var held string
		if gone, held, err = p.remove(ctx, repo, e.Digest); err != nil {
			return row, false, err
		}
		why = cmp.Or(held, why)
	}
	switch {
	case gone || untagged:
	case why != "":
		return p.row(e, Kept, "the registry refuses to delete it: "+why), true, nil
	case needed:
		return p.row(e, Kept, "another tag leads to it, and the registry removes no single tags"), false, nil
	default:
		return row, false, fmt.Errorf("%s refuses to delete %s: allow that in its configuration, and give these credentials the right", p.options.Target.Host, p.row(e, "", "").Target)
	}
	return p.row(e, Removed, ""), false, p.removeReferrersTag(ctx, repo, e.Digest, going)
}

// withoutAttached splits off the attachments to what is needed, and to those attachments.
func withoutAttached(stale []entry, needed map[string]bool) (rest, kept []entry) {
	for {
		n := slices.IndexFunc(stale, func(e entry) bool { return e.Kind == KindAttachment && needed[e.Subject] })
		if n < 0 {
			return stale, kept
		}
		needed[stale[n].Digest] = true
		kept, stale = append(kept, stale[n]), slices.Delete(slices.Clone(stale), n, n+1)
	}
}

// needed returns the digests in a repository that must stay: those to which tags lead that do not go, those that the archive has, and
// those that attachments to them have. An index needs its manifests.
func (p *Push) needed(ctx context.Context, repo *remote.Repository, stale []entry, record pushed) (map[string]bool, error) {
	all := make(map[string]bool)
	for _, i := range p.images {
		if p.options.Target.path(i.repository) == repo.Reference.Repository {
			addDigests(all, i.root)
		}
	}
	for _, e := range record {
		if e.Repository == stale[0].Repository && e.Name == e.Digest && !slices.ContainsFunc(stale, func(s entry) bool { return s.key() == e.key() }) {
			all[e.Digest] = true
		}
	}
	var tags []string
	err := p.options.retry(ctx, func(ctx context.Context) error {
		tags = nil
		return repo.Tags(ctx, "", func(page []string) error {
			tags = append(tags, page...)
			return nil
		})
	})
	pinned := !slices.ContainsFunc(stale, func(e entry) bool { return e.Name != e.Digest })
	if answer, ok := errors.AsType[*errcode.ErrorResponse](err); ok && pinned && answer.StatusCode == http.StatusNotFound {
		err = nil // distribution answers so where nothing has a tag
	}
	if err != nil {
		return nil, fmt.Errorf("list the tags of %s: %w", repo.Reference.Repository, err)
	}
	for _, tag := range tags {
		if isReferrersTag(tag) || slices.ContainsFunc(stale, func(e entry) bool { return e.Name == tag }) {
			continue
		}
		if err := p.addTag(ctx, repo, tag, all); err != nil {
			return nil, fmt.Errorf("ask for %s in %s: %w", tag, repo.Reference.Repository, err)
		}
	}
	return all, nil
}

// isReferrersTag reports whether a tag stands for the referrers of a digest, as registries without the referrers API have it. The list that
// it leads to needs none of what it lists.
func isReferrersTag(tag string) bool {
	hex, found := strings.CutPrefix(tag, "sha256-")
	return found && digest.NewDigestFromEncoded(digest.SHA256, hex).Validate() == nil
}

func addDigests(all map[string]bool, m ocilayout.Manifest) {
	all[m.Digest.String()] = true
	for _, child := range m.Children {
		addDigests(all, child)
	}
}

// fetchTag fetches a manifest by its tag or digest; text is nil if the repository lacks it.
func (p *Push) fetchTag(ctx context.Context, repo *remote.Repository, name string) (d ocispec.Descriptor, text []byte, err error) {
	err = p.options.retry(ctx, func(ctx context.Context) (err error) {
		d, text, err = fetchManifest(ctx, repo, name)
		return err
	})
	if errors.Is(err, errdef.ErrNotFound) {
		return d, nil, nil
	}
	return d, text, err
}

// addTag adds what a tag leads to, and what that lists.
func (p *Push) addTag(ctx context.Context, repo *remote.Repository, name string, all map[string]bool) error {
	d, text, err := p.fetchTag(ctx, repo, name)
	if err != nil || text == nil || all[d.Digest.String()] { // an index may lack platforms
		return err
	}
	all[d.Digest.String()] = true
	var listed struct{ Manifests []ocispec.Descriptor }
	if err := json.Unmarshal(text, &listed); err != nil {
		return err
	}
	for _, child := range listed.Manifests {
		if err := p.addTag(ctx, repo, child.Digest.String(), all); err != nil {
			return err
		}
	}
	return nil
}

// removeReferrersTag removes the tag that stands for the referrers of a manifest, if all that it lists goes.
func (p *Push) removeReferrersTag(ctx context.Context, repo *remote.Repository, subject string, going map[string]bool) error {
	tag := strings.Replace(subject, ":", "-", 1)
	d, text, err := p.fetchTag(ctx, repo, tag)
	if err != nil || text == nil {
		return err
	}
	var listed ocispec.Index
	if err := json.Unmarshal(text, &listed); err != nil {
		return err
	}
	if slices.ContainsFunc(listed.Manifests, func(m ocispec.Descriptor) bool { return !going[m.Digest.String()] }) {
		return nil // somebody else has attached something
	}
	for _, name := range []string{tag, d.Digest.String()} {
		if _, _, err := p.remove(ctx, repo, name); err != nil { // a list that is refused does no harm
			return err
		}
	}
	return nil
}

// remove deletes a tag, or a manifest by its digest with all of its tags. It reports false if the registry does not do that. why is the
// reason that the registry gives for keeping this one, such as an index that lists it, or a rule.
func (p *Push) remove(ctx context.Context, repo *remote.Repository, name string) (done bool, why string, err error) {
	scheme := "https"
	if repo.PlainHTTP {
		scheme = "http"
	}
	at := scheme + "://" + repo.Reference.Host() + "/v2/" + repo.Reference.Repository + "/manifests/" + name
	err = p.options.retry(ctx, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(auth.AppendRepositoryScope(ctx, repo.Reference, auth.ActionDelete), http.MethodDelete, at, nil)
		if err != nil {
			return err
		}
		resp, err := repo.Client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		said, _ := io.ReadAll(io.LimitReader(resp.Body, maxManifest)) // all of it, so that the connection is used again
		switch {
		case resp.StatusCode/100 == 2 || resp.StatusCode == http.StatusNotFound:
			done = true
		case resp.StatusCode == http.StatusBadRequest || resp.StatusCode == http.StatusMethodNotAllowed || resp.StatusCode == http.StatusNotImplemented:
		case resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusConflict || resp.StatusCode == http.StatusPreconditionFailed:
			why = reason(resp.StatusCode, said)
		default:
			return &errcode.ErrorResponse{Method: http.MethodDelete, URL: req.URL, StatusCode: resp.StatusCode}
		}
		return nil
	})
	if err != nil {
		return false, "", fmt.Errorf("delete %s in %s: %w", name, repo.Reference.Repository, err)
	}
	return done, why, nil
}

// reason is the beginning of what an answer of a registry says, or else the words for its status.
func reason(status int, answer []byte) string {
	var said struct{ Errors errcode.Errors }
	if err := json.Unmarshal(answer, &said); err != nil || len(said.Errors) == 0 {
		return http.StatusText(status)
	}
	return diag.Short(said.Errors.Error())
}
