# syntax=docker/dockerfile:1
# The service alone: it needs DATABASE_URL, since an image that is replaced is no place for data.

FROM rust:1.95.0-bookworm AS chef
# The compiler of the image, whatever rust-toolchain.toml says: nothing else is downloaded.
ENV RUSTUP_TOOLCHAIN=1.95.0
RUN cargo install --locked cargo-chef --version 0.1.78
WORKDIR /build

FROM chef AS plan
COPY . .
RUN cargo chef prepare --recipe-path recipe.json

FROM chef AS build
COPY --from=plan /build/recipe.json .
# A layer of its own: dependencies are compiled again only when Cargo.lock changes.
RUN cargo chef cook --release --locked --recipe-path recipe.json
COPY . .
RUN cargo build --release --locked --bin hooktriage

# The binary needs the C library and root certificates, nothing else.
FROM debian:bookworm-slim
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /build/target/release/hooktriage /usr/local/bin/hooktriage
USER 1001:1001
ENV HOOKTRIAGE_LISTEN=0.0.0.0:8080
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
  CMD ["/usr/local/bin/hooktriage", "healthcheck"]
# As process 1 and without a shell between, so that a stop reaches it.
ENTRYPOINT ["/usr/local/bin/hooktriage"]
CMD ["serve"]
