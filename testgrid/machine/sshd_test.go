package machine_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// sshd is a server that runs commands on this machine, as OpenSSH does.
type sshd struct {
	port    string
	hostKey string // as a line of authorized_keys
	keyFile string // the private key of the login user
}

func newKey(t *testing.T) (ssh.Signer, []byte) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	return signer, pem.EncodeToMemory(block)
}

func startSSHD(t *testing.T) sshd {
	t.Helper()
	return startServer(t, serve)
}

// startServer starts a server that handles connections as it likes.
func startServer(t *testing.T, serve func(net.Conn, *ssh.ServerConfig)) sshd {
	t.Helper()
	hostKey, _ := newKey(t)
	user, private := newKey(t)
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(user.PublicKey().Marshal()) {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}}
	config.AddHostKey(hostKey)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn, config)
		}
	}()
	s := sshd{hostKey: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(hostKey.PublicKey()))), keyFile: filepath.Join(t.TempDir(), "id")}
	if _, s.port, err = net.SplitHostPort(listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.keyFile, private, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func serve(conn net.Conn, config *ssh.ServerConfig) {
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for offered := range channels {
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		go func() {
			for request := range requests {
				var command struct{ Line string }
				ok := request.Type == "exec" && ssh.Unmarshal(request.Payload, &command) == nil
				_ = request.Reply(ok, nil)
				if ok {
					go execute(channel, command.Line)
				}
			}
		}()
	}
}

// silent lets a user log in, and answers nothing then.
func silent(conn net.Conn, config *ssh.ServerConfig) {
	if _, channels, _, err := ssh.NewServerConn(conn, config); err == nil {
		for range channels { // nobody accepts one
		}
	}
}

func execute(channel ssh.Channel, line string) {
	defer channel.Close()
	cmd := exec.Command("sh", "-c", line)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = channel, channel, channel.Stderr()
	err := cmd.Run()
	status := struct{ Code uint32 }{0}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status.Code = uint32(exit.ExitCode())
	}
	_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(status))
}
