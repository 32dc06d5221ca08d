package manifest

import (
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/sealift/sealift/internal/atomicfile"
)

// AddImages appends images to a Manifest, and returns their directives. The id of each is the last word of its repository, with
// a number if the Manifest has that already.
func AddImages(file string, refs []string) (added []Image, err error) {
	if len(refs) == 0 {
		return nil, nil
	}
	parsed, err := Load(file)
	if err != nil {
		return nil, err
	}
	taken := map[string]bool{}
	for _, image := range parsed.Images() {
		taken[image.ID] = true
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		data = append(data, '\n')
	}
	for _, ref := range refs {
		repository, _, _ := strings.Cut(ref, "@")
		name, _, _ := strings.Cut(path.Base(repository), ":")
		id := name
		for n := 2; taken[id]; n++ {
			id = fmt.Sprintf("%s-%d", name, n)
		}
		taken[id] = true
		added = append(added, Image{ID: id, Ref: ref})
		data = fmt.Appendf(data, "image %s %s\n", id, ref)
	}
	return added, atomicfile.Write(file, data)
}
