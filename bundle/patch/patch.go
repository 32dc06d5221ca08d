// Package patch makes and applies patches between two versions of a file: a program, or the tar of an image layer.
//
// A patch copies ranges of the base, adds to words in them, and adds new bytes. It suits programs: where code moves, the addresses in
// otherwise equal code change. The patch tells what moved, so the reader corrects most addresses by itself. docs/format.md has the format.
//
// The package knows two contents as bytes. It knows nothing about digests, archives or tar: callers verify the base before they apply
// a patch, and the result after it.
package patch

const (
	// Window is the zstd window of a patch, in bytes.
	Window = 8 << 20
	// Memory is the most that a Reader takes, in bytes: twice the window, a segment with all its places, the steps, what they move, and what
	// was learned.
	Memory = 2*Window + 7*segment + (16+16)*maxSteps + 4*maxBlocks + 1<<20

	// magic is the beginning of a patch.
	magic = "sealift.patch/v2\n"
	// segment is how many bytes of the result one segment has. The last one may have fewer.
	segment = 2 << 20
	// maxSteps and maxRegions limit what a patch may have.
	maxSteps, maxRegions = 3 << 18, 1 << 12
	// word is how many bytes a correction covers.
	word = 4
)

// step builds a part of the result: bytes of the base, some of them changed, and new bytes after them. No step crosses the end of a segment.
type step struct {
	from  int32 // where the copied bytes begin in the base
	at    int32 // where they begin in the result
	copy  int32 // bytes that are like those of the base
	fresh int32 // bytes after them that are not
}
