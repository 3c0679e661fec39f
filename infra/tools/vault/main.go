// Command vault serves HashiCorp Vault with the parts that Canyon's tests use: the method `jwt` and the secrets engine
// `kv`, over storage in memory. The program of Vault's own module links every cloud's SDK, and takes four times as long to
// compile.
//
//	vault ADDRESS
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"

	log "github.com/hashicorp/go-hclog"
	jwt "github.com/hashicorp/vault-plugin-auth-jwt"
	kv "github.com/hashicorp/vault-plugin-secrets-kv"
	vaulthttp "github.com/hashicorp/vault/http"
	"github.com/hashicorp/vault/sdk/helper/consts"
	"github.com/hashicorp/vault/sdk/logical"
	"github.com/hashicorp/vault/sdk/physical/inmem"
	"github.com/hashicorp/vault/vault"
)

// builtins are the parts that Vault knows by name.
var builtins = map[consts.PluginType]map[string]logical.Factory{
	consts.PluginTypeCredential: {"jwt": jwt.Factory},
	consts.PluginTypeSecrets:    {"kv": kv.Factory},
}

// registry answers Vault's questions about them.
type registry struct{}

func (registry) Contains(name string, of consts.PluginType) bool {
	_, known := builtins[of][name]
	return known
}

func (registry) Get(name string, of consts.PluginType) (func() (interface{}, error), bool) {
	factory, known := builtins[of][name]
	return func() (interface{}, error) { return factory, nil }, known
}

func (registry) Keys(of consts.PluginType) []string {
	var names []string
	for name := range builtins[of] {
		names = append(names, name)
	}
	return names
}

func (registry) DeprecationStatus(name string, of consts.PluginType) (consts.DeprecationStatus, bool) {
	_, known := builtins[of][name]
	return consts.Supported, known
}

func (registry) IsBuiltinEntPlugin(string, consts.PluginType) bool { return false }

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: vault ADDRESS")
		os.Exit(2)
	}
	if err := serve(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "vault:", err)
		os.Exit(1)
	}
}

func serve(address string) error {
	logger := log.New(&log.LoggerOptions{Level: log.Warn})
	storage, err := inmem.NewInmem(nil, logger)
	if err != nil {
		return err
	}
	core, err := vault.NewCore(&vault.CoreConfig{
		Physical:           storage,
		DisableMlock:       true,
		Logger:             logger,
		BuiltinRegistry:    registry{},
		CredentialBackends: builtins[consts.PluginTypeCredential],
		LogicalBackends:    builtins[consts.PluginTypeSecrets],
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return http.Serve(listener, vaulthttp.Handler.Handler(&vault.HandlerProperties{Core: core}))
}
