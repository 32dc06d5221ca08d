package install

import (
	"github.com/sealift/sealift/installer/cluster"
	"github.com/sealift/sealift/installer/cluster/encryption"
	"github.com/sealift/sealift/internal/fips"
)

// checkSecretsKeys refuses a new cluster whose Secrets would be encrypted, if this program may not make such keys. A cluster that has keys keeps
// them: its Secrets would be lost without.
func (j *job) checkSecretsKeys() error {
	if j.Joins() || j.options.Upgrade != nil || !cluster.Encrypts(j.vars) {
		return nil
	}
	if _, there, err := (encryption.Host{}).Read(); err != nil || there {
		return err
	}
	return fips.Secrets.Refuse()
}
