#!/bin/sh
# Builds, runs, tests and measures Tollgate. See README.md.
set -eu

usage() {
	cat <<'TEXT'
usage: ./xcaddy.sh build | package | run [--one-process] [--verbose] | test [--long] |
                   bench [<measurement>...]

  build   build bin/caddy (Caddy with the modules) and bin/upstream
  package build both, a Debian package and what a container is built from
          into dist/
  run     build, start both with Caddyfile, make a demo account; Ctrl-C stops;
          --one-process starts bin/caddy alone, with the upstream inside;
          --verbose prints the logs, which are in a file without it
  test    install Debian packages (as root), then vet, lint and test;
          --long also fuzzes, and runs what takes long
  bench   install what that needs, then measure the cost of the gate, as
          ratios within one run; bench peers measures it against nginx

Settings come from the environment: TOLLGATE_ADDRESS, TOLLGATE_CONTROL,
TOLLGATE_UPSTREAM, TOLLGATE_DATA, TOLLGATE_TIMEZONE, TOLLGATE_SECRET,
TOLLGATE_DATABASE, TOLLGATE_SIGNUP, TOLLGATE_NAME, TOLLGATE_LOGO,
TOLLGATE_CONTACT, TOLLGATE_RATES, CADDY_ADMIN.
TEXT
}

# misuse refuses a command line.
misuse() {
	echo "xcaddy.sh: $1" >&2
	usage | sed '/^$/q' >&2
	echo 'Run "./xcaddy.sh --help" for help.' >&2
	exit 2
}

cd "$(dirname "$0")"

# version prints what both programs and the package say: TOLLGATE_VERSION, or the
# tag that git describe finds and the commits since then, or the time of the
# commit, or nothing without git. A version with + is above its tag, and one with
# ~ is below the first release.
version() {
	version=${TOLLGATE_VERSION:-$(
		git describe --tags --match 'v[0-9]*' --abbrev=12 2>&- | sed 's/-\([0-9]*\)-g/+\1.g/' | grep . ||
			TZ=UTC git log -1 --abbrev=12 --date=format-local:%Y%m%d%H%M%S --format=0~%cd.g%h 2>&- || :
	)}
	echo "${version#v}"
}

# build leaves nothing to the network once the modules are there: xcaddy
# resolves from the module cache, which go.sum has verified. Its arguments are
# the directory of the programs, bin without one, and flags of the linker for
# caddy and for upstream. The tests find bin built.
build() {
	[ $# != 0 ] || [ -z "${TOLLGATE_BUILT:-}" ] || return 0
	bin=${1:-bin}
	module=$(go list -m)
	link="-w -s -X $module/caddymodule/control/api.release=$(version)"
	caddy=$(go list -m -f '{{.Version}}' github.com/caddyserver/caddy/v2)
	go mod download
	mkdir -p "$bin"
	GOPROXY="file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)" GONOSUMDB='*' GOFLAGS='-buildvcs=false -trimpath' XCADDY_PRINT_VERSION=0 \
		XCADDY_GO_BUILD_FLAGS="-trimpath -tags nobadger,nomysql,nopgx -ldflags '$link ${2:-}'" \
		CGO_ENABLED=0 go tool xcaddy build "$caddy" --with "$module/caddymodule" --with "$module/caddymodule/redis" --with "$module/upstream/caddyupstream" \
		--replace "$module=." --output "$bin/caddy" >"$bin/build.log" 2>&1 || {
		cat "$bin/build.log" >&2
		exit 1
	}
	CGO_ENABLED=0 go build -trimpath -ldflags "$link ${3:-}" -o "$bin/upstream" ./upstream
}

# package writes dist. The same commit and version of Go give the same files.
package() {
	export SOURCE_DATE_EPOCH VERSION GOARCH
	SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
	VERSION=$(version)
	GOARCH=$(go env GOARCH)
	rm -rf dist
	# Names for help and completion: caddy can be another package.
	build dist '-X github.com/caddyserver/caddy/v2.CustomBinaryName=tollgate-caddy' "-X $(go list -m)/upstream/cli.name=tollgate-upstream"
	mkdir -p dist/container/data dist/man
	dist/caddy tollgate manpage dist/man
	dist/upstream manpage dist/man
	changelog >dist/changelog
	gzip -9n dist/changelog dist/man/*
	sed 's|{env.TOLLGATE_SECRET}|{file./etc/tollgate/secret}|' Caddyfile >dist/Caddyfile
	sed 's|{$TOLLGATE_DATA:./data}/log|/var/log/tollgate|' log.caddyfile >dist/log.caddyfile
	go tool -modfile=tools/nfpm/go.mod nfpm package --config packaging/nfpm.yaml --packager deb --target dist/ >dist/build.log
	cp packaging/Containerfile dist/caddy dist/container
	sed 's|import ../|import |' examples/one-process.Caddyfile | cat - packaging/health.Caddyfile >dist/container/Caddyfile
	sed 's|{$TOLLGATE_DATA:./data}/log|/log|' log.caddyfile >dist/container/log.caddyfile
	mv dist/caddy "dist/tollgate-caddy_${VERSION}_linux_$GOARCH"
	mv dist/upstream "dist/tollgate-upstream_${VERSION}_linux_$GOARCH"
	rm -r dist/Caddyfile dist/log.caddyfile dist/build.log dist/changelog.gz dist/man
	(cd dist && sha256sum tollgate* >SHA256SUMS && cat SHA256SUMS)
}

# changelog prints the first part of CHANGELOG.md in the form of Debian.
changelog() {
	printf 'tollgate (%s) unstable; urgency=medium\n\n' "$VERSION"
	awk '/^## / { part++ } part == 1 && sub(/^- /, "  * ")' CHANGELOG.md | fold -s -w 76 | sed '/^  \*/!s/^/    /; s/ *$//'
	printf '\n -- %s  %s\n' "$(sed -n 's/^maintainer: //p' packaging/nfpm.yaml)" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")"
}

# random prints 64 random hexadecimal digits.
random() {
	od -An -N32 -tx1 /dev/urandom | tr -d ' \n'
}

# keep prints the contents of a private file of the data directory, made
# at the first time from what the command behind its name prints.
keep() {
	file="$TOLLGATE_DATA/$1"
	shift
	if [ ! -s "$file" ]; then
		(umask 077 && "$@" >"$file.new" && mv "$file.new" "$file") || return 1
	fi
	cat "$file"
}

# demo makes the demo account, or gives the one that is there a new
# password, and prints its e-mail and password.
demo() {
	email=demo@example.com
	password=$(random | cut -c1-20)
	printf '%s\n' "$password" | $upstream account add --email "$email" --plan starter >bin/demo.log 2>&1 ||
		printf '%s\n' "$password" | $upstream account set-password "$email" >>bin/demo.log 2>&1 || {
		cat bin/demo.log >&2
		return 1
	}
	printf '%s %s\n' "$email" "$password"
}

# run starts the programs. Its argument is the Caddyfile. upstream is the
# command that administers accounts.
run() {
	TOLLGATE_ADDRESS=${TOLLGATE_ADDRESS:-http://localhost:8080}
	TOLLGATE_CONTROL=${TOLLGATE_CONTROL:-127.0.0.1:8081}
	TOLLGATE_UPSTREAM=${TOLLGATE_UPSTREAM:-127.0.0.1:9000}
	TOLLGATE_DATA=${TOLLGATE_DATA:-./data}
	TOLLGATE_TIMEZONE=${TOLLGATE_TIMEZONE:-UTC}
	# The second program listens for upstream only.
	listener=$TOLLGATE_UPSTREAM
	[ "$upstream" = bin/upstream ] || listener=
	TOLLGATE_SIGNUP=${TOLLGATE_SIGNUP:-off}
	mkdir -p bin
	echo "Building (some minutes the first time)"
	problems=$(CGO_ENABLED=0 go run -trimpath ./tools/ports "TOLLGATE_ADDRESS=$TOLLGATE_ADDRESS" "TOLLGATE_CONTROL=$TOLLGATE_CONTROL" "TOLLGATE_UPSTREAM=$listener" \
		"CADDY_ADMIN=${CADDY_ADMIN-localhost:2019}" 2>&1) || {
		printf '%s\n' "$problems" | grep -v -e '^exit status ' -e '^go: downloading ' >&2
		exit 1
	}
	build
	(umask 077 && mkdir -p "$TOLLGATE_DATA")
	TOLLGATE_SECRET=${TOLLGATE_SECRET:-$(keep secret random)}
	export TOLLGATE_ADDRESS TOLLGATE_CONTROL TOLLGATE_UPSTREAM TOLLGATE_DATA TOLLGATE_TIMEZONE TOLLGATE_SECRET TOLLGATE_SIGNUP

	site=${TOLLGATE_ADDRESS%%,*} log=$TOLLGATE_DATA/run.log pids= nap=
	: >"$log"
	trap 'stop' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	[ "$upstream" != bin/upstream ] || start bin/upstream serve
	# Without a host name, the control listener answers for all names. Only
	# this machine reaches it: the Caddyfile binds it.
	start env TOLLGATE_CONTROL=":${TOLLGATE_CONTROL##*:}" bin/caddy run --config "$1" --adapter caddyfile
	retry $upstream account list
	! command -v curl >bin/await.log || retry curl -fsSk --max-time 2 "$site/healthz"
	account=$(keep demo demo)
	greet "${account% *}" "${account#* }"
	while alive; do
		bound
		sleep 1 &
		nap=$!
		wait $nap
	done
	fail "a program ended by itself"
}

# start starts a program in the background.
start() {
	if [ -n "$verbose" ]; then
		"$@" &
	else
		"$@" >>"$log" 2>&1 &
	fi
	pids="$pids $!"
}

# bound empties a log of more than 16 MiB. The file before it is kept.
bound() {
	[ "$(wc -c <"$log")" -gt 16777216 ] || return 0
	cp "$log" "$log.old" || :
	: >"$log"
}

# fail ends run with a message, below the last lines of the log.
fail() {
	if [ -z "$verbose" ]; then
		echo "The last lines of $log:" >&2
		tail -n 10 "$log" >&2
	fi
	echo "xcaddy.sh: $1" >&2
	exit 1
}

alive() {
	for pid in $pids; do
		kill -0 "$pid" 2>&- || return 1
	done
}

# stop ends what runs and waits for it: nothing stays behind.
stop() {
	trap '' INT TERM
	for pid in $pids $nap; do
		kill -TERM "$pid" 2>&- || :
	done
	for pid in $pids $nap; do
		wait "$pid" 2>&- || :
	done
	pids= nap=
}

# retry runs a command until it succeeds, and gives up when it does not
# for a minute or a program ended.
retry() {
	tries=0
	until "$@" 2>bin/await.log >/dev/null; do
		tries=$((tries + 1))
		alive || fail "a program did not start"
		[ $tries -lt 300 ] || fail "this does not work: $*: $(cat bin/await.log)"
		sleep 0.2
	done
}

# rates prints of which day the newest rates are. It waits some seconds for
# the first attempt to fetch newer ones.
rates() {
	tries=0
	while health=$(curl -fsSk --max-time 2 "$site/healthz" 2>bin/await.log) && [ $tries -lt 25 ]; do
		case "$health" in
		*'"live":true,"failing":false,"checked_at":null'*) tries=$((tries + 1)) && sleep 0.2 ;;
		*) break ;;
		esac
	done
	day=$(echo "$health" | sed -n 's/.*"date":"\([^"]*\)".*/\1/p')
	case "$health" in
	*'"failing":true'*) echo "of ${day:-the build}: no newer ones could be fetched, maybe because there is no network" ;;
	*'"live":true,"failing":false,"checked_at":null'*) echo "of ${day:-the build}: newer ones are being fetched" ;;
	*) echo "of ${day:-an unknown day}" ;;
	esac
}

greet() {
	cat <<TEXT

Tollgate is running at $site. Ctrl-C stops it.

  account   $1
  password  $2
  web pages $site/login
  ECB rates $(rates)
TEXT
	[ -n "$verbose" ] || echo "  logs      $log"
	if [ "$TOLLGATE_SIGNUP" != off ]; then
		plan=$TOLLGATE_SIGNUP
		[ "$plan" != on ] || plan=free
		echo "  sign-up   $site/signup, on plan $plan (TOLLGATE_SIGNUP)"
		[ "$plan" != free ] || echo "            The plan free has no access to the API."
	fi
	cat <<TEXT

Try it. "indicative" rates are market values, not for bills or accounting: add ?source=ECB,parity.

  TOKEN=\$(curl -s $site/api/login -H 'Content-Type: application/json' -d '{"email":"$1","password":"$2"}' | sed 's/.*"token":"\([^"]*\)".*/\1/')
  curl -i -H "Authorization: Bearer \$TOKEN" $site/api/convert/EUR/100/USD
  curl -s -H "Authorization: Bearer \$TOKEN" $site/api/usage

TEXT
}

# debian installs packages where this machine is a Debian and we are root.
# Elsewhere the commands and tests say what they miss.
debian() {
	missing=
	for package in "$@"; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>&-)" = installed ] || missing="$missing $package"
	done
	[ -n "$missing" ] || return 0
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "xcaddy.sh: cannot install:$missing" >&2
		return 0
	fi
	apt update
	# shellcheck disable=SC2086 # one word per package
	apt install --no-install-recommends $missing
}

# apt runs apt-get. It waits up to ten minutes while another apt holds a lock,
# such as that of a machine that has just booted. DPkg::Lock::Timeout is not
# enough: it waits for the locks of dpkg, not for those of the lists and
# archives.
apt() {
	tries=0 waiting=
	until LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" >bin/apt.log 2>&1; do
		tries=$((tries + 1))
		lock=$(grep 'Could not get lock' bin/apt.log) && [ $tries -lt 600 ] || {
			cat bin/apt.log >&2
			exit 1
		}
		[ "$lock" = "$waiting" ] || echo "xcaddy.sh: waiting: $lock" >&2
		waiting=$lock
		sleep 1
	done
}

# lint checks the code. With the flags of the tests, it finds the packages
# compiled.
lint() {
	unformatted=$(git ls-files '*.go' | xargs gofmt -l)
	[ -z "$unformatted" ] || {
		echo "xcaddy.sh: run gofmt -w $unformatted" >&2
		exit 1
	}
	CGO_ENABLED=0 go build -modfile=tools/lint/go.mod -trimpath -o .cache/staticcheck honnef.co/go/tools/cmd/staticcheck
	CGO_ENABLED=1 GOFLAGS=-race .cache/staticcheck -tags long ./...
	# shellcheck disable=SC2086 # a flag or nothing
	CGO_ENABLED=0 go run -trimpath ./tools/machines ${TOLLGATE_LONG:+-build}
}

# fuzz runs every fuzz target for a few seconds.
fuzz() {
	grep -rE '^func Fuzz' --include='*_test.go' --exclude-dir=.cache . |
		sed -E 's|^(.*)/[^/]*:func (Fuzz[A-Za-z0-9_]*)\(.*|\1 \2|' >bin/fuzz.targets
	while read -r package target; do
		if go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-3s}" "./$package" >bin/fuzz.log 2>&1 </dev/null || timed_out; then
			cat bin/fuzz.log
		else
			cat bin/fuzz.log >&2
			exit 1
		fi
	done <bin/fuzz.targets
	[ -s bin/fuzz.targets ] || {
		echo "xcaddy.sh: there are no fuzz targets" >&2
		exit 1
	}
}

# timed_out tells the end of the time from a finding: Go before 1.27 may
# call it a failure (https://go.dev/issue/75804). A finding has a text of
# its own, and the input that led to it is written down.
timed_out() {
	grep -qx '    context deadline exceeded' bin/fuzz.log && ! grep -qi 'failing input\|panic\|seed corpus\|_test.go:' bin/fuzz.log
}

# check tests everything. Its arguments are those of go test.
check() {
	mkdir -p bin .cache
	npm=$(command -v npm >/dev/null || echo nodejs npm)
	# shellcheck disable=SC2086 # one word per package
	debian apache2-bin ca-certificates chromium curl docker-registry e2fsprogs fcgiwrap gcc jq libapache2-mod-auth-openidc libc6-dev \
		libnginx-mod-http-js libnginx-mod-http-lua lua-nginx-redis nginx php-cgi postgresql prometheus python3-cryptography python3-jose \
		python3-jwcrypto python3-jwt python3-yaml \
		rclone redis-server skopeo sqlite3 systemd wrk $npm $long_packages
	build
	export TOLLGATE_BUILT=1
	lint
	if [ -n "$long_packages" ]; then
		# The tests package, and build e2e/modules, without a network.
		go tool -modfile=tools/nfpm/go.mod nfpm --version >bin/nfpm.log
		CGO_ENABLED=0 go list -C e2e/modules -deps . >bin/modules.log
	fi
	# Many tests wait for a disk or a timer: four packages fill two processors.
	# A program with the race detector must not sleep a second when it exits.
	GORACE=atexit_sleep_ms=0 CGO_ENABLED=1 go test -race -vet all -p 4 "$@" ./...
	# The store has other options on a system of 32 bits. An amd64 kernel runs it.
	[ "$(go env GOARCH)" != amd64 ] ||
		GOARCH=386 CGO_ENABLED=0 go test ./internal/store/badgerstore/... ./internal/store/memstore ./internal/login ./internal/token ./internal/calendar
	bin/caddy fmt --diff Caddyfile >bin/fmt.diff || {
		cat bin/fmt.diff >&2
		exit 1
	}
}

case "${1:-}" in
build | package)
	[ $# = 1 ] || misuse "unexpected argument \"$2\": $1 takes none"
	"$1"
	;;
--help | -h | help) usage ;;
run)
	upstream=bin/upstream caddyfile=Caddyfile verbose=
	shift
	for flag in "$@"; do
		case "$flag" in
		--one-process) upstream='bin/caddy upstream' caddyfile=examples/one-process.Caddyfile ;;
		--verbose) verbose=1 ;;
		*) misuse "unknown flag \"$flag\": run takes --one-process, --verbose" ;;
		esac
	done
	run "$caddyfile"
	;;
test)
	long_packages=
	case "${2:-}" in
	'') check -timeout 30m ;;
	--long)
		# The tests read it: see storetest.Long.
		export TOLLGATE_LONG=1
		long_packages='buildah docker-compose iproute2 lintian'
		check -timeout 4h -tags long
		fuzz
		;;
	*) misuse "unexpected argument \"$2\": test takes --long" ;;
	esac
	;;
bench)
	shift
	mkdir -p bin
	# nginx with Lua does the gate's work in the measurement peers.
	debian ca-certificates libnginx-mod-http-lua lua-nginx-redis nginx redis-server wrk
	command -v wrk >/dev/null || {
		echo "xcaddy.sh: bench needs the load generator wrk (on Debian: apt-get install wrk)" >&2
		exit 1
	}
	build
	exec go run ./tools/bench "$@"
	;;
*) misuse "${1:+unknown command \"$1\": }use build, package, run, test, bench" ;;
esac
