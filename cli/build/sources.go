package build

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sealift/sealift/builder"
	"github.com/sealift/sealift/builder/cache"
	"github.com/sealift/sealift/builder/config"
	"github.com/sealift/sealift/cli/app"
	"github.com/sealift/sealift/helm/engine"
)

// sources are the flags of every command that resolves and fetches what Manifests name.
type sources struct {
	targets   []string
	platforms []string
	jobs      int
	cache     cacheFlags
	config    string
}

func (s *sources) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&s.targets, "target", nil, "operating systems to carry packages for (default: defaultTargets in sealift.yaml, or debian-12 and debian-13)")
	flags.StringSliceVar(&s.platforms, "platform", []string{builder.DefaultPlatform}, "platforms to carry images and assets for")
	flags.IntVar(&s.jobs, "jobs", 0, "transfers at once (default: one for each CPU, at least 4)")
	flags.StringVar(&s.config, "config", "", "configuration file (default: sealift.yaml of the working directory)")
	s.cache.add(flags)
	s.cache.addBound(flags)
}

// addForCharts adds the flags of a command that fetches nothing but charts.
func (s *sources) addForCharts(flags *pflag.FlagSet) {
	flags.StringVar(&s.config, "config", "", "configuration file with mirrors for charts (default: sealift.yaml of the working directory)")
	s.cache.add(flags)
}

// options are those of a builder with the flags.
func (s *sources) options(a commands) (builder.Options, error) {
	if s.jobs < 0 {
		return builder.Options{}, app.UsageError("--jobs must not be negative")
	}
	settings, err := config.Load(s.config)
	return builder.Options{Config: settings, Targets: s.targets, Platforms: s.platforms, Jobs: s.jobs, Charts: engine.Renderer{}, Log: a.Log, CAs: a.CAs}, err
}

// locker makes a builder that locks, which shows its transfers. Call close after its use.
func (s *sources) locker(a commands, settings builder.Options) (b *builder.Builder, watch transferWatch, closeCache func(), err error) {
	store, err := s.cache.open()
	if err != nil {
		return nil, nil, nil, err
	}
	watch = newTransferWatch(a.Err, "fetched")
	settings.Progress = watch
	if b, err = builder.New(store, settings); err != nil {
		s.cache.close(a, store)
		return nil, nil, nil, app.UsageError("%v", err)
	}
	return b, watch, func() { s.cache.close(a, store) }, nil
}

// cacheFlags are the flags of every command that uses the cache.
type cacheFlags struct {
	dir   string
	bound byteSize
}

// defaultBound is the default size of the cache on disk. It holds some dozens of large packages, and build machines have
// much larger disks.
const defaultBound = 50 << 30

func (c *cacheFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&c.dir, "cache", "", "cache directory (default: sealift in the user's cache directory)")
}

func (c *cacheFlags) addBound(flags *pflag.FlagSet) {
	c.bound = defaultBound
	flags.Var(&c.bound, "cache-size", "prune the cache to this size afterwards, least recently used first; none for no limit")
}

func (c *cacheFlags) open() (*cache.Cache, error) {
	dir, err := c.folder()
	if err != nil {
		return nil, err
	}
	return cache.Open(dir)
}

// openExisting opens the cache for an inspecting command. It creates none: it returns nil, and says so on standard error.
func (c *cacheFlags) openExisting(a commands) (*cache.Cache, error) {
	dir, err := c.folder()
	if err != nil {
		return nil, err
	}
	if !cache.Exists(dir) {
		fmt.Fprintf(a.Err, "there is no cache in %s; builds create it, or name another directory with --cache\n", dir)
		return nil, nil
	}
	return cache.Open(dir)
}

func (c *cacheFlags) folder() (string, error) {
	if c.dir == "" {
		return cache.DefaultDir()
	}
	return c.dir, nil
}

// close ends the use of the cache and keeps it within its bound. The work is done by then, so trouble is only logged.
func (c *cacheFlags) close(a commands, store *cache.Cache) {
	defer store.Close()
	removed, err := store.Prune(cache.PruneOptions{MaxSize: int64(c.bound)})
	if err != nil {
		a.Log.Warn("the cache was not pruned", "error", err)
	}
	if len(removed) > 0 {
		a.Log.Info("pruned the cache", "removed", len(removed), "bound", c.bound.String())
	}
}

// byteSize is a flag for a number of bytes, negative for none.
type byteSize int64

func (b *byteSize) Type() string { return "size" }

func (b *byteSize) String() string {
	if *b < 0 {
		return "none"
	}
	for _, u := range slices.Backward(byteUnits) {
		if *b > 0 && int64(*b)%u.bytes == 0 {
			return fmt.Sprintf("%d%s", int64(*b)/u.bytes, u.name)
		}
	}
	return strconv.FormatInt(int64(*b), 10)
}

var byteUnits = []struct {
	name  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}}

func (b *byteSize) Set(s string) error {
	if s == "none" {
		*b = -1
		return nil
	}
	number, factor := s, int64(1)
	for _, u := range byteUnits {
		if before, ok := strings.CutSuffix(s, u.name); ok {
			number, factor = before, u.bytes
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > (1<<63-1)/factor {
		return fmt.Errorf("%q is not a size such as 500MiB, 20GiB, or none", s)
	}
	*b = byteSize(n * factor)
	return nil
}
