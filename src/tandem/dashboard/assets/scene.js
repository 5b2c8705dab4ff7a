// The robot, drawn from primitives and the poses of its bodies. Nothing is drawn while nothing moves.
import { OrbitControls, THREE } from "nicegui-scene";

const colour = (name) => new THREE.Color(getComputedStyle(document.documentElement).getPropertyValue(name).trim() || "#888");

const SLOW_MS = 100; // between two frames without a graphics card: the heartbeat of the steering must not wait for them

/** A three.js canvas in an element, with z up, drawn on demand. */
export class Picture {
  constructor(element) {
    this.element = element;
    this.renderer = new THREE.WebGLRenderer({ antialias: true, alpha: true });
    const gl = this.renderer.getContext();
    const info = gl.getExtension("WEBGL_debug_renderer_info");
    const name = info ? gl.getParameter(info.UNMASKED_RENDERER_WEBGL) : "";
    this.slow = /swiftshader|llvmpipe|software/i.test(name); // without a graphics card every frame costs the processor
    this.renderer.setPixelRatio(this.slow ? 1 : Math.min(2, devicePixelRatio));
    this.renderer.shadowMap.enabled = !this.slow;
    this.renderer.shadowMap.type = THREE.PCFSoftShadowMap;
    element.append(this.renderer.domElement);
    this.scene = new THREE.Scene();
    this.camera = new THREE.PerspectiveCamera(40, 1, 0.01, 100);
    this.camera.up.set(0, 0, 1);
    this.controls = new OrbitControls(this.camera, this.renderer.domElement);
    this.controls.enableDamping = false;
    this.controls.addEventListener("change", () => this.draw());
    this.scene.add(new THREE.HemisphereLight(0xffffff, 0x8a8f98, 1.7));
    this.sun = new THREE.DirectionalLight(0xffffff, 1.9);
    this.sun.castShadow = !this.slow;
    this.sun.shadow.mapSize.set(1024, 1024);
    this.scene.add(this.sun, this.sun.target);
    new ResizeObserver(() => this.resize()).observe(element);
    this.resize();
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!width || !height) return;
    this.renderer.setSize(width, height, false);
    this.camera.aspect = width / height;
    this.camera.updateProjectionMatrix();
    this.draw();
  }

  look({ lookat, distance, azimuth, elevation }) {
    const a = (azimuth * Math.PI) / 180, e = (elevation * Math.PI) / 180;
    const towards = new THREE.Vector3(Math.cos(e) * Math.cos(a), Math.cos(e) * Math.sin(a), Math.sin(e));
    const target = new THREE.Vector3(...lookat);
    this.camera.position.copy(target).addScaledVector(towards, -distance);
    this.controls.target.copy(target);
    this.camera.near = distance / 100;
    this.camera.far = distance * 30;
    this.camera.updateProjectionMatrix();
    this.sun.position.copy(target).add(new THREE.Vector3(0.4, -0.6, 1.5).multiplyScalar(distance));
    this.sun.target.position.copy(target);
    Object.assign(this.sun.shadow.camera, { left: -distance, right: distance, top: distance, bottom: -distance, far: distance * 4 });
    this.sun.shadow.camera.updateProjectionMatrix();
    this.controls.update();
    this.draw();
  }

  draw() {
    if (this.due) return;
    this.due = true;
    const left = (this.drawnAt ?? -Infinity) + (this.slow ? SLOW_MS : 0) - performance.now();
    setTimeout(() => requestAnimationFrame(() => {
      this.due = false;
      this.drawnAt = performance.now();
      this.renderer.render(this.scene, this.camera);
    }), Math.max(0, left));
  }

  /** Direction of view in degrees about z; 0 is along x. */
  get azimuth() {
    const towards = this.controls.target.clone().sub(this.camera.position);
    return (Math.atan2(towards.y, towards.x) * 180) / Math.PI;
  }
}

/** Bodies with their geoms; `move` sets their poses. */
export class Robot extends Picture {
  build(described) {
    this.bodies?.forEach((body) => this.scene.remove(body));
    this.bodies = described.bodies.map(() => new THREE.Group());
    this.bodies.forEach((body) => this.scene.add(body));
    for (const geom of described.geoms) {
      const mesh = drawn(geom);
      if (!mesh || !this.bodies[geom.body]) continue;
      mesh.position.set(...geom.pos);
      mesh.quaternion.set(geom.quat[1], geom.quat[2], geom.quat[3], geom.quat[0]);
      this.bodies[geom.body].add(mesh);
    }
    this.look(described.camera);
    this.to = null;
  }

  /** Float32Array of 7 numbers for each body: position, quaternion (w, x, y, z). */
  move(poses) {
    if (!this.bodies || poses.length < 7 * this.bodies.length) return;
    const first = !this.to;
    this.to = poses;
    this.poses = poses;
    if (first || this.slow) this.step(1);
    else if (!this.moving) this.glide();
  }

  /** Views come 10 to 20 times a second; poses are interpolated between them. */
  glide() {
    this.moving = true;
    requestAnimationFrame(() => {
      const left = this.step(0.35);
      if (left > 1e-5 && !document.hidden) this.glide();
      else this.moving = false;
    });
  }

  step(share) {
    const p = this.to, at = new THREE.Vector3(), q = new THREE.Quaternion();
    let left = 0;
    this.bodies.forEach((body, i) => {
      at.set(p[7 * i], p[7 * i + 1], p[7 * i + 2]);
      q.set(p[7 * i + 4], p[7 * i + 5], p[7 * i + 6], p[7 * i + 3]);
      const far = body.position.distanceTo(at);
      const now = far > 0.25 ? 1 : share; // a reset is a jump: do not interpolate
      body.position.lerp(at, now);
      body.quaternion.slerp(q, now);
      left = Math.max(left, far, body.quaternion.angleTo(q));
    });
    this.draw();
    return left;
  }
}

function drawn({ type, size, rgba, vertices, faces }) {
  const [a, b, c] = size;
  let geometry;
  if (type === "box" || (type === "mesh" && !vertices)) geometry = new THREE.BoxGeometry(2 * a, 2 * b, 2 * c);
  else if (type === "sphere") geometry = new THREE.SphereGeometry(a, 24, 16);
  else if (type === "ellipsoid") geometry = new THREE.SphereGeometry(1, 24, 16).scale(a, b, c);
  else if (type === "cylinder") geometry = new THREE.CylinderGeometry(a, a, 2 * b, 32).rotateX(Math.PI / 2);
  else if (type === "capsule") geometry = new THREE.CapsuleGeometry(a, 2 * b, 8, 20).rotateX(Math.PI / 2);
  else if (type === "plane") geometry = new THREE.PlaneGeometry(2 * (a || 5), 2 * (b || 5));
  else if (type === "mesh") {
    geometry = new THREE.BufferGeometry();
    geometry.setAttribute("position", new THREE.Float32BufferAttribute(faces.flat().flatMap((i) => vertices[i]), 3));
    geometry.computeVertexNormals();
  } else return null;
  const material = new THREE.MeshStandardMaterial({
    color: new THREE.Color().setRGB(rgba[0], rgba[1], rgba[2], THREE.SRGBColorSpace),
    roughness: 0.65,
    metalness: 0.05,
    transparent: rgba[3] < 1,
    opacity: rgba[3],
    side: type === "plane" || type === "mesh" ? THREE.DoubleSide : THREE.FrontSide,
  });
  const mesh = new THREE.Mesh(geometry, material);
  mesh.castShadow = type !== "plane";
  mesh.receiveShadow = true;
  return mesh;
}

/** Where the tool went in an episode, coloured by who was in control, with a marker at one step. */
export class Path extends Picture {
  show(path, byPerson) {
    this.drawn?.forEach((object) => this.scene.remove(object));
    this.drawn = [];
    const points = path.map((p) => new THREE.Vector3(...p));
    const box = new THREE.Box3().setFromPoints(points), extent = Math.max(box.getSize(new THREE.Vector3()).length(), 0.02);
    for (let i = 0; i + 1 < points.length; i++) {
      const name = byPerson[Math.min(i, byPerson.length - 1)] ? "--you" : "--policy";
      const length = points[i].distanceTo(points[i + 1]);
      if (length < 1e-7) continue;
      const rod = new THREE.Mesh(new THREE.CylinderGeometry(extent / 150, extent / 150, length, 6), new THREE.MeshStandardMaterial({ color: colour(name) }));
      rod.position.copy(points[i]).lerp(points[i + 1], 0.5);
      rod.quaternion.setFromUnitVectors(new THREE.Vector3(0, 1, 0), points[i + 1].clone().sub(points[i]).normalize());
      this.drawn.push(rod);
    }
    const floor = new THREE.GridHelper(extent * 1.6, 8, colour("--dim"), colour("--line"));
    floor.rotateX(Math.PI / 2);
    const middle = box.getCenter(new THREE.Vector3());
    floor.position.set(middle.x, middle.y, box.min.z - extent * 0.03);
    this.marker = new THREE.Mesh(new THREE.SphereGeometry(extent / 45, 20, 14), new THREE.MeshStandardMaterial({ color: colour("--halt") }));
    const start = new THREE.Mesh(new THREE.SphereGeometry(extent / 70, 16, 12), new THREE.MeshStandardMaterial({ color: colour("--dim") }));
    start.position.copy(points[0]);
    this.drawn.push(floor, this.marker, start);
    this.drawn.forEach((object) => this.scene.add(object));
    this.points = points;
    this.look({ lookat: middle.toArray(), distance: extent * 1.9, azimuth: 140, elevation: -28 });
    this.at(0);
  }

  at(step) {
    this.marker.position.copy(this.points[Math.min(step, this.points.length - 1)]);
    this.draw();
  }
}
