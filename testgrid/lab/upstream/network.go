package upstream

import (
	"github.com/sealift/sealift/internal/releases"
)

// What allows connections between pods.

// networkPolicies makes the program that judges connections.
func networkPolicies(version string) []Component {
	return []Component{goModule("kube-network-policies", version, GoModule{
		Path:     "sigs.k8s.io/kube-network-policies",
		With:     commonLibraries("github.com/opencontainers/runtime-spec"), // the required nri does not compile with it
		Commands: []GoCommand{{Package: "cmd", Name: "netpol"}},
		Patches:  []Patch{queueOfXtables()},
	})}
}

// queueOfXtables has nftables send packets to a program by the target of iptables.
func queueOfXtables() Patch {
	const file = "expr/queue.go"
	return Patch{
		Module: "github.com/google/nftables", Version: "v0.3.0",
		Edits: []Edit{
			{File: file, Old: `[]byte("queue\x00")`, New: `[]byte("target\x00")`},
			{File: file, Old: "{Type: unix.NFTA_QUEUE_NUM, Data: binaryutil.BigEndian.PutUint16(e.Num)}", New: `{Type: unix.NFTA_TARGET_NAME, Data: []byte("NFQUEUE\x00")}`},
			{File: file, Old: "{Type: unix.NFTA_QUEUE_TOTAL, Data: binaryutil.BigEndian.PutUint16(e.Total)}", New: "{Type: unix.NFTA_TARGET_REV, Data: binaryutil.BigEndian.PutUint32(3)}"},
			{File: file, Old: "{Type: unix.NFTA_QUEUE_FLAGS, Data: binaryutil.BigEndian.PutUint16(uint16(e.Flag))}",
				New: "{Type: unix.NFTA_TARGET_INFO, Data: binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint16(binary.NativeEndian.AppendUint16(nil, e.Num), e.Total), uint32(e.Flag))}"},
		},
		Why: "the kernel of lab hosts has no expression queue, and has the target NFQUEUE, which does the same",
	}
}

func networkPoliciesImages(r releases.Release) []Image {
	version := "v" + r.Version
	return []Image{
		{
			Ref:   "registry.k8s.io/networking/kube-network-policies:" + version,
			Files: filesOf("kube-network-policies-"+version, "bin", "netpol"), Cmd: []string{"/bin/netpol"},
		},
		{Ref: "docker.io/library/busybox:" + r.With["busybox"] + "-musl", Base: []string{busyboxBase}, OCI: true, Cmd: []string{"sh"}},
	}
}
