package inventory

import (
	"errors"
	"path"
	"strings"
)

// The bounds of what is remembered of one image. Real images have far less; what has more is reported as unknown.
const (
	maxNodes = 200_000 // files of interest, symbolic links, and the folders on the way to them
	maxPath  = 4096    // bytes of a path, Linux's PATH_MAX
	maxLinks = 40      // symbolic links on one path, as in Linux
	// maxBytes bounds the memory of an image: names, links and what was found, in all of its layers.
	maxBytes = 128 << 20
	// maxVisits bounds the time: the number of visits of nodes, in all layers. A layer of 100,000 files takes a million.
	maxVisits = 500_000_000
)

var (
	errTooLarge = errors.New("it has too many files")
	errBadPath  = errors.New("it has a path that no file system takes")
)

// tree is the file system of an image as far as it matters here: files of interest and symbolic links. Layers are applied to it in their
// order, so that a file that a higher layer deletes or replaces is not in it. Nothing is written to a disk, so no path can escape.
type tree struct {
	root          *node
	count         int
	bytes, visits int // only grow
}

// node is a file, a link or a folder.
type node struct {
	layer    int // that made it
	children map[string]*node
	link     string // target of a symbolic link
	found    *found // content of a file of interest
}

func newTree() *tree { return &tree{root: &node{}} }

// clone returns a copy to which another layer can be applied.
func (t *tree) clone() *tree { c := *t; c.root = t.root.clone(); return &c }

func (n *node) clone() *node {
	c := *n
	if n.children != nil {
		c.children = make(map[string]*node, len(n.children))
		for name, child := range n.children {
			c.children[name] = child.clone()
		}
	}
	return &c
}

// resolve returns the real path of an entry of a layer, relative and clean, and "" for the root: symbolic links among its folders are
// followed within the root, as container runtimes do. Its last part is not followed.
func (t *tree) resolve(name string) (string, error) {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	if len(name) > maxPath {
		return "", errBadPath
	}
	todo := strings.Split(name, "/")
	var done []string
	at := []*node{t.root} // the nodes of done, nil where nothing is known
	for hops := 0; len(todo) > 1; {
		if t.visits++; t.visits > maxVisits {
			return "", errTooLarge
		}
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if len(done) > 0 {
				done, at = done[:len(done)-1], at[:len(at)-1]
			}
			continue
		}
		child := at[len(at)-1].child(part)
		if child == nil || child.link == "" {
			done, at = append(done, part), append(at, child)
			continue
		}
		if hops++; hops > maxLinks || len(child.link) > maxPath {
			return "", errBadPath
		}
		if strings.HasPrefix(child.link, "/") {
			done, at = nil, at[:1]
		}
		todo = append(strings.Split(child.link, "/"), todo...)
	}
	return path.Join(append(done, todo...)...), nil
}

func (n *node) child(name string) *node {
	if n == nil {
		return nil
	}
	return n.children[name]
}

// get returns the node at a resolved path, or nil.
func (t *tree) get(name string) *node {
	at := t.root
	if name == "" {
		return at
	}
	for part := range strings.SplitSeq(name, "/") {
		if at = at.child(part); at == nil {
			return nil
		}
	}
	return at
}

// put puts a node at a resolved path, replacing all that is there.
func (t *tree) put(name string, n *node) error {
	if name == "" {
		return nil
	}
	t.remove(name)
	at := t.root
	dir, base := path.Split(name)
	if dir != "" {
		for part := range strings.SplitSeq(strings.TrimSuffix(dir, "/"), "/") {
			next := at.child(part)
			if next == nil {
				next = &node{layer: n.layer}
				if err := t.add(at, part, next); err != nil {
					return err
				}
			}
			at = next
		}
	}
	return t.add(at, base, n)
}

func (t *tree) add(to *node, name string, n *node) error {
	t.count++
	if t.bytes += len(name) + len(n.link) + n.found.size(); t.count > maxNodes || t.bytes > maxBytes {
		return errTooLarge
	}
	if to.children == nil {
		to.children = make(map[string]*node)
	}
	to.children[name] = n
	return nil
}

// remove removes a resolved path and all below it.
func (t *tree) remove(name string) {
	dir, base := path.Split(name)
	if parent := t.get(strings.TrimSuffix(dir, "/")); parent != nil && parent.children[base] != nil {
		t.count -= parent.children[base].size()
		delete(parent.children, base)
	}
}

// size returns how many nodes a node and all below it are.
func (n *node) size() int {
	count := 1
	for _, child := range n.children {
		count += child.size()
	}
	return count
}

// removeBefore removes a resolved path and all below it, except what the given layer itself has made.
func (t *tree) removeBefore(name string, layer int) {
	if n := t.get(name); n != nil && n != t.root {
		if t.emptyBefore(n, layer); len(n.children) == 0 && n.layer < layer {
			t.remove(name)
		}
	}
}

// emptyBefore removes what is below a node, except what the given layer itself has made.
func (t *tree) emptyBefore(n *node, layer int) {
	if n == nil {
		return
	}
	t.visits += len(n.children)
	for name, child := range n.children {
		if t.emptyBefore(child, layer); len(child.children) == 0 && child.layer < layer {
			t.count--
			delete(n.children, name)
		}
	}
}

// walk calls each for every file of interest, in no certain order.
func (t *tree) walk(each func(name string, f *found)) {
	var below func(prefix string, n *node)
	below = func(prefix string, n *node) {
		if n.found != nil {
			each(prefix, n.found)
		}
		for name, child := range n.children {
			below(prefix+"/"+name, child)
		}
	}
	below("", t.root)
}
