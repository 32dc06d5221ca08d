package references

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	// maxFile is the largest file that is scanned, in bytes. Larger files are data.
	maxFile = 4 << 20
	// maxDepth is the deepest nesting of folders. Only a link to a parent folder exceeds it.
	maxDepth = 32
	// variableToken is the prefix of placeholders for template variables. It is valid wherever Kubernetes requires a name.
	variableToken = "sealift-variable-"
)

// variable matches the variables in kURL's and Sealift's templates: ${NAME}, and $NAME in capitals.
var variable = regexp.MustCompile(`\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Z_][A-Z0-9_]*))`)

// copy copies the add-on with the layout of a package: links within addons/<name> are resolved, and templates are filled in.
func (c *checker) copy() error {
	abs, err := filepath.Abs(c.dir)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(filepath.Dir(abs))
	if err != nil {
		return err
	}
	defer root.Close()
	if err := c.copyBelow(root, filepath.Base(abs), ".", 0); err != nil {
		return err
	}
	return c.fillIn()
}

func (c *checker) copyBelow(root *os.Root, from, to string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: more than %d folders inside each other; does a link lead to a folder above it?", from, maxDepth)
	}
	entries, err := fs.ReadDir(root.FS(), from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		source, target := path.Join(from, e.Name()), path.Join(to, e.Name())
		info, err := root.Stat(source)
		switch {
		case err != nil:
			return fmt.Errorf("%w; a link must lead to a file of the same add-on", err)
		case strings.HasPrefix(e.Name(), "."):
		case info.IsDir():
			err = c.copyBelow(root, source, target, depth+1)
		case info.Mode().IsRegular() && info.Size() <= maxFile:
			err = c.copyFile(root, source, target)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) copyFile(root *os.Root, from, to string) error {
	f, err := root.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return err
	}
	if isYAML(to) {
		data = variable.ReplaceAllFunc(data, func(found []byte) []byte {
			names := variable.FindSubmatch(found)
			name := string(names[1]) + string(names[2])
			if c.hooks != nil {
				if value, known := c.hooks.Values[name]; known {
					return []byte(value)
				}
			}
			return []byte(variableToken + strings.ReplaceAll(strings.ToLower(name), "_", "-"))
		})
	}
	return c.write(to, data)
}

func (c *checker) write(name string, data []byte) error {
	c.files = append(c.files, name)
	target := filepath.Join(c.work, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return err
	}
	return os.WriteFile(target, data, 0o600)
}

// fillIn writes each template under the name that hooks write it to: deployment.yaml for deployment.tmpl.yaml, and for
// kURL's spelling tmpl-deployment.yaml.
func (c *checker) fillIn() error {
	c.origin = make(map[string]string)
	for _, name := range c.files {
		base, ok := strings.CutPrefix(path.Base(name), "tmpl-")
		if before, after, infix := strings.Cut(base, ".tmpl."); infix {
			base, ok = before+"."+after, true
		}
		filled := path.Join(path.Dir(name), base)
		if !ok {
			continue
		}
		if _, err := os.Stat(filepath.Join(c.work, filepath.FromSlash(filled))); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		data, err := os.ReadFile(filepath.Join(c.work, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		if err := c.write(filled, data); err != nil {
			return err
		}
		c.origin[filled] = name
	}
	return nil
}

func isYAML(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}
