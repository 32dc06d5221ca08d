package assemble

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"sync"

	"github.com/sealift/sealift/bundle"
)

// ProgramFile is the name of the archive with a sealift on a server.
const ProgramFile = "sealift.tar.gz"

// Program is what nodes of one platform run.
type Program struct {
	Platform string // such as linux/amd64
	Sealift  *bundle.Member
	// Preflight is the sealift-preflight. The bundle has it if an add-on or the Installer has checks for it. nil leaves it
	// out, and with it the checks of add-ons on these nodes.
	Preflight *LateMember
	// Console is the sealift-console of control planes; nil leaves it out.
	Console *bundle.Member
}

// Close releases the files of the program.
func (p Program) Close() error {
	var errs []error
	for _, m := range []*bundle.Member{p.Sealift, p.Console} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(append(errs, p.Preflight.Close())...)
}

// Platforms lists the platforms of programs.
func Platforms(programs []Program) (list []string) {
	for _, p := range programs {
		list = append(list, p.Platform)
	}
	return list
}

// ProgramMember makes a member of a bundle from the program in a file. at is its path there, see bundle.ProgramPath. spool is a folder
// for its compressed form, see bundle.WriteOptions; "" leaves it unchanged.
func ProgramMember(ctx context.Context, at, name, spool string) (*bundle.Member, error) {
	file, err := bundle.DiskFile(at, 0o755, name)
	if err != nil {
		return nil, fmt.Errorf("%s for the nodes: %w", path.Base(at), err)
	}
	members, err := bundle.Render(ctx, []bundle.File{file}, bundle.WriteOptions{Spool: spool, Plain: spool == "", Jobs: runtime.GOMAXPROCS(0)})
	if err != nil {
		return nil, fmt.Errorf("%s for the nodes: %w", path.Base(at), err)
	}
	return members[0], nil
}

// LateMember is a ProgramMember that is made when a bundle first needs it: most bundles do without sealift-preflight, the largest program.
type LateMember struct {
	at, name, spool string

	mu   sync.Mutex
	made *bundle.Member
}

// NewLateMember takes the arguments of ProgramMember.
func NewLateMember(at, name, spool string) *LateMember {
	return &LateMember{at: at, name: name, spool: spool}
}

// Member returns the member, and makes it at the first call.
func (l *LateMember) Member(ctx context.Context) (_ *bundle.Member, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.made == nil {
		l.made, err = ProgramMember(ctx, l.at, l.name, l.spool)
	}
	return l.made, err
}

// Close releases the member if it was made.
func (l *LateMember) Close() error {
	if l == nil || l.made == nil {
		return nil
	}
	return l.made.Close()
}
