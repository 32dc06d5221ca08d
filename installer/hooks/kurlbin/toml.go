package kurlbin

import (
	"context"
	"fmt"
	"os"

	"github.com/pelletier/go-toml/v2"

	"github.com/sealift/sealift/installer/host/files"
)

// maxConfig bounds the files that are merged or edited.
const maxConfig = 4 << 20

// mergeTOML puts the patch on top of the base, which is changed: tables are merged, all else is replaced.
func mergeTOML(_ context.Context, args []string, s Streams) error {
	set := flags(s)
	basefile, patchfile := set.String("basefile", "", ""), set.String("patchfile", "", "")
	if err := parse(set, args); err != nil {
		return err
	}
	base, err := readTOML(*basefile)
	if err != nil {
		return err
	}
	patch, err := readTOML(*patchfile)
	if err != nil {
		return err
	}
	MergeTables(base, patch)
	text, err := toml.Marshal(base)
	if err != nil {
		return fmt.Errorf("%s: %w", *basefile, err)
	}
	return files.Replace(*basefile, text)
}

func readTOML(name string) (map[string]any, error) {
	data, err := readFile(name)
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	if err := toml.Unmarshal(data, &values); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return values, nil
}

// MergeTables puts tables on top of others: tables are merged, all else is replaced.
func MergeTables(into, from map[string]any) {
	for key, value := range from {
		table, isTable := value.(map[string]any)
		if old, ok := into[key].(map[string]any); ok && isTable {
			MergeTables(old, table)
			continue
		}
		into[key] = value
	}
}

func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxConfig {
		return nil, fmt.Errorf("%s: has %d bytes, which is too large", name, info.Size())
	}
	return os.ReadFile(name)
}
