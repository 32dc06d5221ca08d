// Package patch makes and applies patches between two versions of a file: a program, or the tar of an image layer.
//
// A patch copies ranges of the base, changes single bytes in them, and adds new bytes. It suits programs: where code moves, the addresses in
// otherwise equal code change by a few bytes. docs/format.md has the format.
//
// The package knows two contents as bytes. It knows nothing about digests, archives or tar: callers verify the base before they apply
// a patch, and the result after it.
package patch

const (
	// Window is the zstd window of a patch, in bytes.
	Window = 8 << 20
	// Memory is the most that a Reader takes, in bytes: twice the window, and a segment in all its forms.
	Memory = 2*Window + 5*segment + 24*maxSteps + 1<<20

	// magic is the beginning of a patch.
	magic = "sealift.patch/v1\n"
	// segment is the most bytes of the result that one segment has. maxSteps limits the steps in it.
	segment  = 2 << 20
	maxSteps = 1 << 16
)

// step builds a part of the result: bytes of the base, some of them changed, and new bytes after them.
type step struct {
	from  int64 // where the copied bytes begin in the base
	at    int64 // where they begin in the result
	copy  int64 // bytes that are like those of the base
	fresh int64 // bytes after them that are not
}
