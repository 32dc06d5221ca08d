package delta

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealift/sealift/bundle"
	"github.com/sealift/sealift/internal/atomicfile"
	"github.com/sealift/sealift/internal/sha256hex"
)

const (
	// pairsForm ends the names of lists of similar files in a spool. Another way to find them needs another name.
	pairsForm = ".similar-1"
	// smallestWithin is the minimum size of a file that is patched within a bundle, in bytes.
	smallestWithin = 1 << 20
	// paysWithin is pays within a bundle. A node that has nothing yet makes all of these files.
	paysWithin = 75
	// similar is the part of a file's samples that another file must have before a patch is tried, in percent. The programs of one release of
	// Kubernetes have 27 to 40 of each other, other programs in Go 17 to 40, and files that have nothing in common 0.
	similar = 12
)

// candidate is a file of a bundle that may be made of another one, or be what others are made of.
type candidate struct {
	content
	name    string       // the path in its package, or at the root
	carried bundle.Entry // as the bundle has it without patches
	lean    *bundle.Entry
	root    bool // at the root
	whole   bool // several packages have it, and a patch would replace one of them alone; or scripts need it whole
	samples samples
}

// Within makes patches of files of a bundle that are similar to other files of it. Files that are left out or patched already stay so. If the
// spool lacks a patch, or what is similar, and is busy, the error is ErrBusy.
func (s *Spool) Within(ctx context.Context, b bundle.Bundle) (*Set, error) {
	m := newMaker(s)
	list, err := candidates(b)
	if err != nil {
		return nil, err
	}
	pairs, err := m.pairs(ctx, list)
	if err != nil {
		return nil, fmt.Errorf("find similar files: %w", err)
	}
	by := make(map[string]candidate, len(list))
	for _, c := range list {
		by[c.plain.SHA256] = c
	}
	for _, now := range list {
		base, ok := by[pairs[now.plain.SHA256]]
		if !ok || now.whole || pairs[base.plain.SHA256] != "" { // the spool may have a list of somebody else
			continue
		}
		made, err := m.spooled(ctx, base.content, now.content)
		if err != nil {
			return nil, fmt.Errorf("make a patch of %s: %w", now.name, err)
		}
		if made.Size*100 <= now.carried.Length*paysWithin {
			m.add(made, now.content, now.name, base.carried.Path, bundle.Patch{Within: true, Base: bundle.Blob{SHA256: base.carried.SHA256, Size: base.carried.Size}})
		}
	}
	return m.finish(ctx)
}

// candidates lists the programs and layers that a bundle carries whole, each content once, the largest first.
func candidates(b bundle.Bundle) (list []candidate, err error) {
	for _, m := range b.Members {
		e := m.Entry()
		c := content{open: m.Open, entry: e, plain: bundle.Blob{SHA256: e.SHA256, Size: e.Size}}
		list = append(list, candidate{content: c, name: e.Path, carried: e, root: true, whole: bundle.IsProgram(bundle.BinaryName, e.Path)})
	}
	for n, a := range b.Packages {
		t := target{archive: a, info: a.Index.Packages[0]}
		if n < len(b.Lean) {
			t.lean = b.Lean[n]
		}
		for _, e := range a.Index.Entries {
			if !strings.HasPrefix(e.Path, t.info.Dir()+"/images/") {
				list = append(list, candidate{content: file(a, e), name: e.Path, carried: e})
			}
		}
		more, err := layers(a, t.info)
		if err != nil {
			return nil, err
		}
		for _, l := range more {
			now, ok := carried(a, l)
			if !ok {
				continue
			}
			c := candidate{content: now, name: now.entry.Path, carried: now.entry}
			if lean, ok := t.leanLayer(l); ok {
				c.carried, c.lean = lean, &lean
			}
			list = append(list, c)
		}
	}
	list = slices.DeleteFunc(list, func(c candidate) bool {
		_, had := b.Since.Left(c.entry, c.lean)
		if c.root {
			_, had = b.Since.LeftMember(c.entry)
		}
		_, made := b.Patched[c.name]
		return had || made || c.layer == "" && c.entry.Encoding != bundle.Deflate || c.carried.Length < smallestWithin || max(c.plain.Size, c.entry.Size) > largest
	})
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.carried.Length, a.carried.Length), strings.Compare(a.plain.SHA256, b.plain.SHA256))
	})
	for i := 1; i < len(list); i++ {
		list[i-1].whole = list[i-1].whole || list[i-1].plain.SHA256 == list[i].plain.SHA256
	}
	return slices.CompactFunc(list, func(a, b candidate) bool { return a.plain.SHA256 == b.plain.SHA256 }), nil
}

// pairs returns what files are made of: the sha256 of each such file, and that of its base. The spool keeps the answer.
func (m *maker) pairs(ctx context.Context, list []candidate) (map[string]string, error) {
	var key strings.Builder
	for _, c := range list {
		fmt.Fprintln(&key, c.plain.SHA256, c.whole)
	}
	name := filepath.Join(m.spool.dir, sha256hex.Of([]byte(key.String()))+pairsForm)
	known := make(map[string]string)
	if data, err := os.ReadFile(name); err == nil && json.Unmarshal(data, &known) == nil {
		used(name)
		return known, nil
	}
	if !m.spool.making.TryLock() {
		return nil, ErrBusy
	}
	defer m.spool.making.Unlock()
	known, err := m.findPairs(ctx, list)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(known)
	if err != nil {
		return nil, err
	}
	return known, atomicfile.Write(name, data)
}

// findPairs chooses files that stay whole, such that patches of the others save as much as possible. No patch needs the result of another one.
func (m *maker) findPairs(ctx context.Context, list []candidate) (map[string]string, error) {
	for i := range list {
		own, err := m.samples(ctx, list[i].content)
		if err != nil && !errors.Is(err, errTooLarge) { // a layer that is too large has none
			return nil, fmt.Errorf("%s: %w", list[i].name, err)
		}
		list[i].samples = own
	}
	saves := make([][]int64, len(list)) // what making a file of another one saves, by both numbers
	for i, c := range list {
		for _, base := range list {
			saves[i] = append(saves[i], c.saves(base))
		}
	}
	bases := chooseBases(saves)
	pairs := make(map[string]string)
	for i, c := range list {
		if base := best(saves[i], bases); base >= 0 && !slices.Contains(bases, i) {
			pairs[c.plain.SHA256] = list[base].plain.SHA256
		}
	}
	return pairs, nil
}

// chooseBases adds the base that saves most, as long as one saves anything: it must save more with others than is lost by carrying itself whole.
func chooseBases(saves [][]int64) (bases []int) {
	var saved int64
	for {
		next := -1
		for i := range saves {
			if sum := total(saves, append(slices.Clone(bases), i)); sum > saved {
				next, saved = i, sum
			}
		}
		if next < 0 {
			return bases
		}
		bases = append(bases, next)
	}
}

// total is what some bases save.
func total(saves [][]int64, bases []int) (sum int64) {
	for i := range saves {
		if base := best(saves[i], bases); base >= 0 && !slices.Contains(bases, i) {
			sum += saves[i][base]
		}
	}
	return sum
}

// best returns the base that saves most for a file, or -1.
func best(saves []int64, bases []int) int {
	found := -1
	for _, b := range bases {
		if saves[b] > 0 && (found < 0 || saves[b] > saves[found]) {
			found = b
		}
	}
	return found
}

// saves estimates the bytes that a patch saves: the part of the samples that a base has, too. It returns 0 if that is too little for a patch.
func (c candidate) saves(base candidate) int64 {
	common := c.samples.common(base.samples)
	if c.whole || c.plain == base.plain || common*100 < len(c.samples)*similar || common == 0 {
		return 0
	}
	return c.carried.Length * int64(common) / int64(len(c.samples))
}

// samples are hashes of some of the places of a content: of those whose hash has a certain form, so that two contents have the same
// samples of what they share.
type samples map[uint64]bool

// samples takes about one place of 4,096.
func (m *maker) samples(ctx context.Context, c content) (samples, error) {
	data, _, err := m.mapped(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unmap(data) }()
	taken := make(samples)
	for i := 0; i+16 <= len(data); i++ {
		h := (binary.LittleEndian.Uint64(data[i:])*0x9e3779b97f4a7c15 ^ binary.LittleEndian.Uint64(data[i+8:])) * 0xd6e8feb86659fd93
		if h>>52 == 0 {
			taken[h] = true
		}
	}
	return taken, nil
}

// common counts the samples that two contents share.
func (s samples) common(other samples) (n int) {
	for h := range s {
		if other[h] {
			n++
		}
	}
	return n
}
