//! A small index of packages on loopback. Its packages have only what a resolver reads.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use provider_core::environment::{PIP, sha256_hex};

/// Name, version, what it depends on, and the Python that it needs.
type Package = (&'static str, &'static str, &'static [&'static str], &'static str);

const PACKAGES: [Package; 9] = [
    ("pip", PIP.version, &[], ">=3.9"),
    ("left", "1.0", &["third<2"], ""),
    ("right", "1.0", &["third>=2"], ""),
    ("third", "1.0", &[], ""),
    ("third", "2.0", &[], ""),
    ("oldie", "1.0", &["pip<20"], ""),
    ("needsgone", "1.0", &["gone-pkg"], ""),
    ("later", "1.0", &[], ">=3.30"),
    ("some-where", "1.0", &["left; sys_platform == 'win32'"], ""),
];

/// The index. It serves until the process ends.
pub(crate) struct Index {
    pub(crate) address: String,
    /// How many requests were not answered, and how many of those the client has given up.
    pub(crate) hanging: Arc<AtomicUsize>,
    pub(crate) given_up: Arc<AtomicUsize>,
}

impl Index {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
        let address = listener.local_addr().expect("an address").to_string();
        let index = Self { address, hanging: Arc::default(), given_up: Arc::default() };
        let (hanging, given_up) = (Arc::clone(&index.hanging), Arc::clone(&index.given_up));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (hanging, given_up) = (Arc::clone(&hanging), Arc::clone(&given_up));
                // A client that goes away is no matter of the index.
                thread::spawn(move || {
                    let _ = answer(stream, &hanging, &given_up);
                });
            }
        });
        index
    }

    /// The address of the index that behaves so.
    pub(crate) fn url(&self, behaviour: &str) -> String {
        format!("http://{}/{behaviour}/", self.address)
    }
}

fn answer(mut stream: TcpStream, hanging: &AtomicUsize, given_up: &AtomicUsize) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? <= 2 {
            break;
        }
    }
    let path = request.split(' ').nth(1).unwrap_or_default();
    let mut parts = path.trim_matches('/').split('/');
    let (behaviour, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let (status, kind, body) = match behaviour {
        "good" if name == "files" => ("200 OK", "text/plain", metadata(parts.next().unwrap_or_default())),
        "good" => listing(name)
            .map_or(("404 Not Found", "text/html", String::new()), |body| ("200 OK", "text/html", body)),
        "garbage" => ("200 OK", "text/html", "\u{1}no list".to_owned()),
        "json" => ("200 OK", "application/vnd.pypi.simple.v1+json", "{\"oops".to_owned()),
        "text" => ("200 OK", "text/plain", "hello".to_owned()),
        "hang" => {
            hanging.fetch_add(1, Ordering::SeqCst);
            let _ = reader.read(&mut [0]);
            given_up.fetch_add(1, Ordering::SeqCst);
            return Ok(());
        }
        status => (status, "text/html", String::new()),
    };
    write!(stream, "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n", body.len())?;
    write!(stream, "Connection: close\r\n\r\n")?;
    stream.write_all(body.as_bytes())
}

fn file(name: &str, version: &str) -> String {
    format!("{}-{version}-py3-none-any.whl", name.replace('-', "_"))
}

/// The hash of a file that nobody downloads: each has one of its own.
pub(crate) fn hash(name: &str, version: &str) -> String {
    if name == PIP.name { PIP.sha256.to_owned() } else { sha256_hex(file(name, version).as_bytes()) }
}

fn listing(name: &str) -> Option<String> {
    let link = |(name, version, _, python): &Package| {
        let (file, hash) = (file(name, version), hash(name, version));
        let python = python.replace('>', "&gt;");
        format!(
            "<a href=\"/good/files/{file}#sha256={hash}\" data-dist-info-metadata=\"true\" data-core-metadata=\"true\" \
             data-requires-python=\"{python}\">{file}</a>"
        )
    };
    let links: String = PACKAGES.iter().filter(|package| package.0 == name).map(link).collect();
    (!links.is_empty()).then(|| format!("<!DOCTYPE html><html><body>{links}</body></html>"))
}

fn metadata(asked: &str) -> String {
    let wanted = asked.trim_end_matches(".metadata");
    let Some((name, version, needs, python)) =
        PACKAGES.iter().find(|package| file(package.0, package.1) == wanted)
    else {
        return String::new();
    };
    let mut text = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
    needs.iter().for_each(|need| text += &format!("Requires-Dist: {need}\n"));
    if !python.is_empty() {
        text += &format!("Requires-Python: {python}\n");
    }
    text
}
